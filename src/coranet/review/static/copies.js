// Copies of volumes with fewer voxels, in the same place: what is enough for a view in space.

import { NVImage } from '/static/niivue.js';

const UNCERTAIN = 1; // what a mark is
const RED = [255, 60, 60];
const ENOUGH = 1e6; // voxels, to know grey levels

// The grey levels that a scan has are looked for in a copy too: NiiVue would go through all voxels.
const { calMinMax } = NVImage.prototype;
NVImage.prototype.calMinMax = function calMinMaxOfCopy(...which) {
  const { img, hdr, hdr: { dims } } = this;
  hdr.dims = fewer(dims, ENOUGH);
  this.img = sampled(img, dims, hdr.dims);
  const found = calMinMax.apply(this, which);
  Object.assign(this, { img, hdr: Object.assign(hdr, { dims }) });
  return found;
};

// How many voxels along each axis of at most so many: the longest axes are the first to have fewer.
function fewer(dims, most) {
  let longest = Math.max(...dims.slice(1, 4));
  const shorter = () => dims.map((size, axis) => (axis > 0 && axis < 4 ? Math.min(size, longest) : size));
  while (longest > 1 && shorter().slice(1, 4).reduce((all, size) => all * size) > most) longest -= 1;
  return shorter();
}

// A scan with at most so many voxels.
export function thinned(scan, most) {
  const { hdr, cal_min, cal_max, global_min, global_max } = scan;
  const dims = fewer(hdr.dims, most);
  const times = dims.map((size, axis) => (size ? hdr.dims[axis] / size : 1));
  const pixDims = hdr.pixDims.map((size, axis) => (axis > 0 && axis < 4 ? size * times[axis] : size));
  const affine = hdr.affine.map((row, at) => (at < 3 ? moved(row, times) : row));
  const copy = new NVImage();
  const img = sampled(scan.img, hdr.dims, dims);
  Object.assign(copy, { hdr: { ...hdr, dims, pixDims, affine }, img, cal_min, cal_max, global_min, global_max });
  copy.calculateRAS();
  return copy;
}

// A row of an affine matrix for voxels that are so many times as long; their first corner stays.
function moved(row, times) {
  const far = [0, 1, 2].reduce((sum, axis) => sum + (row[axis] * (times[axis + 1] - 1)) / 2, row[3]);
  return [...[0, 1, 2].map((axis) => row[axis] * times[axis + 1]), far];
}

// A map on fewer voxels: each is the one in the middle of those it stands for.
export function sampled(map, from, to) {
  if ([1, 2, 3].every((axis) => from[axis] === to[axis])) return map;
  const [xs, ys, zs] = [1, 2, 3].map((axis) => (
    Array.from({ length: to[axis] }, (_, at) => Math.floor(((at + 0.5) * from[axis]) / to[axis]))));
  const found = new map.constructor(xs.length * ys.length * zs.length);
  let at = 0;
  for (const z of zs) {
    for (const y of ys) {
      const row = from[1] * (y + from[2] * z);
      for (const x of xs) { found[at] = map[row + x]; at += 1; }
    }
  }
  return found;
}

// Marks over a copy wherever one of some places of the scan is.
export function marksIn(scan, copy, places) {
  const [[, wide, high], to] = [scan.hdr.dims, copy.hdr.dims];
  const [xs, ys, zs] = [1, 2, 3].map((axis) => (
    Array.from({ length: scan.hdr.dims[axis] }, (_, at) => Math.floor((at * to[axis]) / scan.hdr.dims[axis]))));
  const img = new Uint8Array(copy.img.length);
  places.forEach((place) => {
    const row = Math.floor(place / wide);
    img[xs[place - row * wide] + to[1] * (ys[row % high] + to[2] * zs[Math.floor(row / high)])] = UNCERTAIN;
  });
  const marks = new NVImage();
  const hdr = { ...copy.hdr, datatypeCode: 2, numBitsPerVoxel: 8, scl_slope: 1, scl_inter: 0, cal_min: 0, cal_max: UNCERTAIN };
  Object.assign(marks, { name: 'marks.nii', hdr, img, global_min: 0, global_max: UNCERTAIN, opacity: 0.4 });
  marks.calculateRAS();
  const [R, G, B] = RED.map((band) => [0, band]);
  marks.setColormapLabel({ R, G, B, A: [0, 255], I: [0, UNCERTAIN], labels: ['', ''] });
  return marks;
}
