// The slices that NiiVue lays out, painted from voxels: the scan, what is uncertain, the label, the piece in question, outlines.
// NiiVue would first bring each of these to the graphics card as a whole volume; where software draws, that takes a minute.

const ACROSS = [2, 1, 0]; // of axial, coronal and sagittal slices: the axis that they are taken along
const WITHIN = [[0, 1], [0, 2], [1, 2]];
const RED = [255, 60, 60];
const PIECE = 'rgba(255, 255, 255, 0.6)';
const SHARE = { region: 0.4, label: 0.28, rim: 0.95 }; // of a colour in what is seen

const sheet = document.createElement('canvas').getContext('2d', { willReadFrequently: true });

// Paints all tiles. `look` has maps of label, region and outlines, with places as in NiiVue's drawing; what is hidden is left out.
export function paintSlices(pen, nv, look) {
  const { width, height } = nv.gl.canvas;
  if (pen.canvas.width !== width || pen.canvas.height !== height) Object.assign(pen.canvas, { width, height });
  pen.clearRect(0, 0, width, height);
  pen.imageSmoothingEnabled = false;
  for (const tile of nv.screenSlices) {
    if (tile.axCorSag > 2 || !Number.isFinite(tile.sliceFrac)) continue;
    pen.save();
    pen.beginPath();
    pen.rect(...tile.leftTopWidthHeight);
    pen.clip();
    paintSlice(pen, planeOf(nv, tile), nv.volumes[0], look);
    pen.restore();
  }
}

function paintSlice(pen, plane, scan, { label, region, colours, piece, outlines }) {
  paintVoxels(pen, plane, scan, (place, colour) => {
    if (label && label[place]) mix(colour, colours[label[place]], SHARE.label);
    if (region && region[place]) mix(colour, RED, SHARE.region);
  });
  if (label) {
    const rims = colours.map(() => new Path2D());
    borders(plane, label, (value) => rims[value]);
    pen.lineWidth = window.devicePixelRatio;
    rims.slice(1).forEach((rim, place) => strokeIn(pen, `rgba(${colours[place + 1]}, ${SHARE.rim})`, rim));
  }
  pen.fillStyle = PIECE;
  pen.fill(voxels(plane, piece));
  pen.lineWidth = 1.5 * window.devicePixelRatio;
  for (const { map, colour } of outlines) {
    const outline = new Path2D();
    borders(plane, map, () => outline);
    strokeIn(pen, colour, outline);
  }
}

function strokeIn(pen, colour, path) {
  pen.strokeStyle = colour;
  pen.stroke(path);
}

// Which slice a tile shows, where on the screen its voxels lie, and which of them are seen.
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
  const seen = [seenOf(x, size[h], left, left + width), seenOf(y, size[v], top, top + height)];
  return { size, stride, across, h, v, slice, x, y, seen };
}

// The first voxel of a row that is seen between two places on the screen, and the one after the last.
function seenOf(on, size, low, high) {
  const ends = [low, high].map((place) => (place - on(0)) / (on(1) - on(0)));
  return [Math.max(Math.floor(Math.min(...ends)), 0), Math.min(Math.ceil(Math.max(...ends)), size)];
}

// Grey levels from black to white, and over them what `tint(place, colour)` makes of them.
function paintVoxels(pen, { stride, across, h, v, slice, x, y, seen: [[left, right], [low, high]] }, scan, tint) {
  const [wide, tall] = [right - left, high - low];
  if (wide < 1 || tall < 1) return;
  const { img, hdr, img2RASstep: step, img2RASstart: start, cal_min: black, cal_max: white } = scan;
  const scale = (255 * hdr.scl_slope) / (white - black);
  const shift = (255 * (hdr.scl_inter - black)) / (white - black);
  const first = start[0] + start[1] + start[2] + slice * step[across] + left * step[h];
  const picture = new ImageData(wide, tall);
  const { data } = picture;
  const colour = [0, 0, 0];
  for (let b = low, to = 0; b < high; b += 1) {
    let from = first + b * step[v];
    let place = slice * stride[across] + b * stride[v] + left * stride[h];
    for (let a = left; a < right; a += 1, to += 4, from += step[h], place += stride[h]) {
      colour.fill(Math.min(Math.max(img[from] * scale + shift, 0), 255));
      tint(place, colour);
      data[to] = colour[0];
      data[to + 1] = colour[1];
      data[to + 2] = colour[2];
      data[to + 3] = 255;
    }
  }
  Object.assign(sheet.canvas, { width: wide, height: tall });
  sheet.putImageData(picture, 0, 0);
  pen.save();
  pen.transform((x(right) - x(left)) / wide, 0, 0, (y(high) - y(low)) / tall, x(left), y(low));
  pen.drawImage(sheet.canvas, 0, 0);
  pen.restore();
}

function mix(colour, other, share) {
  for (let band = 0; band < 3; band += 1) colour[band] += (other[band] - colour[band]) * share;
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

// The borders between voxels of different classes on one slice, each added to the paths of both its classes.
function borders({ size, stride, across, h, v, slice, x, y, seen: [[left, right], [low, high]] }, map, pathOf) {
  const add = (own, other, ax, ay, bx, by) => {
    for (const path of new Set([pathOf(own), pathOf(other)])) {
      path.moveTo(ax, ay);
      path.lineTo(bx, by);
    }
  };
  for (let b = low; b < high; b += 1) {
    let place = slice * stride[across] + left * stride[h] + b * stride[v];
    for (let a = left; a < right; a += 1, place += stride[h]) {
      const own = map[place];
      if (a + 1 < size[h] && map[place + stride[h]] !== own) add(own, map[place + stride[h]], x(a + 1), y(b), x(a + 1), y(b + 1));
      if (b + 1 < size[v] && map[place + stride[v]] !== own) add(own, map[place + stride[v]], x(a), y(b + 1), x(a + 1), y(b + 1));
    }
  }
}
