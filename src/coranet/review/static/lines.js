// Thin lines about the objects of label maps, laid over the slices that NiiVue shows.

const ACROSS = [2, 1, 0]; // of axial, coronal and sagittal slices: the axis that they are taken along
const WITHIN = [[0, 1], [0, 2], [1, 2]];

const PIECE = 'rgba(255, 255, 255, 0.6)';

// The piece in question as white voxels, and outlines. Both lie on a plane of their own: no volume is drawn anew for them.
export function drawLines(canvas, nv, outlines, piece) {
  const { width, height } = nv.gl.canvas;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext('2d');
  pen.clearRect(0, 0, width, height);
  pen.lineWidth = 1.5 * window.devicePixelRatio;
  for (const tile of nv.screenSlices) {
    if (tile.axCorSag > 2 || !Number.isFinite(tile.sliceFrac)) continue;
    const plane = planeOf(nv, tile);
    pen.save();
    pen.beginPath();
    pen.rect(...tile.leftTopWidthHeight);
    pen.clip();
    pen.fillStyle = PIECE;
    pen.fill(voxels(plane, piece));
    for (const { map, colour } of outlines) {
      pen.strokeStyle = colour;
      pen.stroke(outline(plane, map));
    }
    pen.restore();
  }
}

// Which slice a tile shows, and where on the screen its voxels lie.
function planeOf(nv, tile) {
  const size = nv.volumes[0].dimsRAS.slice(1, 4);
  const stride = [1, size[0], size[0] * size[1]];
  const across = ACROSS[tile.axCorSag];
  const [h, v] = WITHIN[tile.axCorSag];
  const slice = Math.min(Math.max(Math.round(nv.scene.crosshairPos[across] * size[across] - 0.5), 0), size[across] - 1);
  const [left, top, width, height] = tile.leftTopWidthHeight;
  const corner = nv.frac2mm([0, 0, 0]), far = nv.frac2mm([1, 1, 1]);
  const along = (axis, voxel) => corner[axis] + (far[axis] - corner[axis]) * (voxel / size[axis]);
  const x = (voxel) => left + (width * (along(h, voxel) - tile.leftTopMM[0])) / tile.fovMM[0];
  const y = (voxel) => top + height * (1 - (along(v, voxel) - tile.leftTopMM[1]) / tile.fovMM[1]);
  return { size, stride, across, h, v, slice, x, y };
}

// Those of some places that lie on the slice, as a path on the screen.
function voxels({ size, stride, across, h, v, slice, x, y }, places) {
  const path = new Path2D();
  const at = (place, axis) => Math.floor(place / stride[axis]) % size[axis];
  for (const place of places) {
    if (at(place, across) !== slice) continue;
    const [a, b] = [at(place, h), at(place, v)];
    path.rect(x(a), y(b), x(a + 1) - x(a), y(b + 1) - y(b));
  }
  return path;
}

// The borders between voxels of different classes on one slice, as a path on the screen.
function outline({ size, stride, across, h, v, slice, x, y }, map) {
  const path = new Path2D();
  for (let b = 0; b < size[v]; b += 1) {
    for (let a = 0; a < size[h]; a += 1) {
      const place = slice * stride[across] + a * stride[h] + b * stride[v];
      const own = map[place];
      if (a + 1 < size[h] && map[place + stride[h]] !== own) { path.moveTo(x(a + 1), y(b)); path.lineTo(x(a + 1), y(b + 1)); }
      if (b + 1 < size[v] && map[place + stride[v]] !== own) { path.moveTo(x(a), y(b + 1)); path.lineTo(x(a + 1), y(b + 1)); }
    }
  }
  return path;
}
