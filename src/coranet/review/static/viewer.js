// NiiVue with a scan, marks over it and the label as its drawing. Nothing that it has is written again.

import { Niivue, NVImage, SLICE_TYPE } from '/static/niivue.js';
import { fileOf, readBytes } from '/static/api.js';
import { drawLines } from '/static/lines.js';

const UNCERTAIN = 1; // what a mark is
const RED = [255, 60, 60];
const LINES = { conservative: '#35d0e6', radical: '#ffa940' };
const PLANES = [SLICE_TYPE.SAGITTAL, SLICE_TYPE.CORONAL, SLICE_TYPE.AXIAL]; // across x, y and z
const UNDOS = 64;

export class Viewer {
  constructor() {
    this.shown = { region: true, lines: true, label: true };
    this.view = 0;
    this.nv = new Niivue({
      backColor: [0, 0, 0, 1], crosshairColor: [0.37, 0.78, 1, 0.55], crosshairWidth: 0.2, crosshairGap: 4, isRadiologicalConvention: true,
      show3Dcrosshair: true, dragAndDropEnabled: false,
      maxDrawUndoBitmaps: UNDOS, loadingText: '', logLevel: 'silent', isResizeCanvas: true, isNearestInterpolation: true, fontSizeScaling: 0.35,
    });
    Object.assign(this, { undos: 0, closest: 1, quiet: false, marked: [] });
  }

  async open(canvas, lines, onDrawn, onWindow) {
    await this.nv.attachToCanvas(canvas);
    const [draw, update] = [this.nv.drawScene.bind(this.nv), this.nv.updateGLVolume.bind(this.nv)];
    this.nv.updateGLVolume = () => { if (!this.quiet) update(); };
    this.nv.drawScene = () => {
      if (this.quiet) return;
      draw();
      drawLines(lines, this.nv, this.shown.lines ? this.outlines : [], this.marked);
    };
    this.nv.onDrawingChanged = (action) => {
      if (action !== 'draw') return;
      this.undos = Math.min(this.undos + 1, UNDOS - 1);
      onDrawn();
    };
    this.nv.onIntensityChange = (volume) => onWindow(volume.cal_min, volume.cal_max);
  }

  async load(info, classes, pieces, channel = 0) {
    this.outlines = [];
    const [prediction, saved] = await this.#quietly(async () => {
      const bytes = await this.#fetch(info, channel);
      this.nv.addVolume(marksLike(this.nv.volumes[0], pieces.index));
      this.#paintMarks();
      this.nv.setDrawColormap(paintOf(classes));
      return bytes;
    });
    this.nv.updateGLVolume();
    this.#draw(prediction);
    this.#outline(pieces);
    if (saved) this.#draw(saved);
    this.nv.setDrawingEnabled(false);
    this.showLabel(this.shown.label);
    [this.undos, this.marked] = [0, []];
    if (info.pieces.length) this.frame(pieces.finest.map((piece) => piece.middle));
    this.look(this.view);
  }

  // The scan, and the voxels of the prediction and of the label where one was saved.
  async #fetch(info, channel) {
    const [low, high] = info.window;
    const range = channel ? {} : { cal_min: low, cal_max: high };
    const bytes = await Promise.all([
      readBytes(info.name, 'prediction.bin'),
      info.saved ? readBytes(info.name, 'label.bin') : null,
      this.nv.loadVolumes([{ url: fileOf(info.name, `image${channel}.nii`), name: 'image.nii', colormap: 'gray', ...range }]),
    ]);
    const [scan] = this.nv.volumes;
    this.#turn = { dims: scan.hdr.dims, perm: scan.permRAS, ras: scan.dimsRAS };
    this.across = this.#turn.perm.findIndex((own) => Math.abs(own) - 1 === info.axis);
    return bytes;
  }

  #turn = null;

  // NiiVue brings all volumes to the graphics card whenever one of them changes. Of many changes the last one is enough.
  async #quietly(work) {
    this.quiet = true;
    try { return await work(); } finally { this.quiet = false; }
  }

  // The label, from the bytes of its voxels in the scan's order.
  #draw(bytes) {
    const { hdr, permRAS } = this.nv.volumes[0];
    if (!this.nv.loadDrawing({ hdr, permRAS, img: new Uint8Array(bytes) })) throw new Error('The label does not fit the scan.');
  }

  // The conservative and the radical answer as whole maps, to draw their outlines; the prediction is what is drawn now.
  #outline(pieces) {
    this.outlines = Object.entries(LINES).map(([name, colour]) => {
      const map = this.nv.drawBitmap.slice();
      pieces.each(pieces.finest.keys(), name, (index, value) => { map[this.place(index)] = value; });
      return { map, colour };
    });
  }

  // Where a voxel of the scan lies in NiiVue's drawing, which is turned to right, front, up.
  place(index) {
    const { dims, perm, ras } = this.#turn;
    const at = [index % dims[1], Math.floor(index / dims[1]) % dims[2], Math.floor(index / (dims[1] * dims[2]))];
    let place = 0;
    for (let axis = 2; axis >= 0; axis -= 1) {
      const own = Math.abs(perm[axis]) - 1;
      place = place * ras[axis + 1] + (perm[axis] > 0 ? at[own] : dims[own + 1] - 1 - at[own]);
    }
    return place;
  }

  // Changes the label through change(put) as one step that can be undone.
  edit(change) {
    change((index, value) => { this.nv.drawBitmap[this.place(index)] = value; });
    this.nv.drawAddUndoBitmap();
    this.undos = Math.min(this.undos + 1, UNDOS - 1);
    this.nv.refreshDrawing(true);
  }

  undo() {
    if (!this.undos) return false;
    this.undos -= 1;
    this.nv.drawUndo();
    return true;
  }

  bytes() { return this.nv.saveImage({ filename: '', isSaveDrawing: true }); }

  // The piece in question, which `drawLines` shows.
  mark(each) {
    this.marked = [];
    each((index) => { this.marked.push(this.place(index)); });
    this.nv.drawScene();
  }

  toggle(name) {
    this.shown[name] = !this.shown[name];
    if (name === 'label') this.showLabel(this.shown.label);
    else if (name === 'region') this.#paintMarks();
    else this.nv.drawScene();
    return this.shown[name];
  }

  showLabel(shown) {
    this.nv.drawRimOpacity = shown ? 0.95 : 0;
    this.nv.setDrawOpacity(shown ? 0.28 : 0);
  }

  #paintMarks() {
    const [R, G, B] = RED.map((band) => [0, band]);
    this.nv.volumes[1].setColormapLabel({ R, G, B, A: [0, this.shown.region ? 255 : 0], I: [0, UNCERTAIN], labels: ['', ''] });
    this.nv.updateGLVolume();
  }

  pen(value, filled) {
    this.nv.setDrawingEnabled(value !== null);
    if (value !== null) this.nv.setPenValue(value, filled);
  }

  set penSize(size) { this.nv.opts.penSize = size; }

  goTo([x, y, z]) {
    this.nv.scene.crosshairPos = this.#share([x, y, z]);
    this.#centre();
  }

  // Where a voxel of the scan lies, as shares of the way to the right, to the front and up.
  #share([x, y, z]) {
    const { dims, ras } = this.#turn;
    const place = this.place(x + dims[1] * (y + dims[2] * z));
    const at = [place % ras[1], Math.floor(place / ras[1]) % ras[2], Math.floor(place / (ras[1] * ras[2]))];
    return at.map((voxel, axis) => (voxel + 0.5) / ras[axis + 1]);
  }

  // Look so closely that these voxels fill the slice.
  frame(voxels) {
    const shares = voxels.map((voxel) => this.#share(voxel));
    const spans = [0, 1, 2].filter((axis) => axis !== this.across)
      .map((axis) => Math.max(...shares.map((one) => one[axis])) - Math.min(...shares.map((one) => one[axis])));
    this.closest = Math.min(Math.max(0.75 / (Math.max(...spans) + 0.1), 1), 4);
    this.reset();
  }

  // What is under the cross lies in the middle of each plane when one looks closely.
  #centre() {
    const zoom = this.nv.scene.pan2Dxyzmm[3];
    const [low, high] = this.nv.sceneExtentsMinMax(true);
    const mm = this.nv.frac2mm(this.nv.scene.crosshairPos);
    const pan = [0, 1, 2].map((axis) => (zoom > 1 ? (low[axis] + high[axis]) / 2 - zoom * mm[axis] : 0));
    this.nv.setPan2Dxyzmm([...pan, zoom]);
  }

  zoom(factor) {
    const zoom = Math.min(Math.max(this.nv.scene.pan2Dxyzmm[3] * factor, 1), 20);
    this.nv.setPan2Dxyzmm([0, 0, 0, zoom]);
    this.#centre();
  }

  reset() {
    this.nv.setPan2Dxyzmm([0, 0, 0, this.closest]);
    this.#centre();
  }

  // The plane of the slices large, and beside it the two others and the view in space; then each of the four alone.
  look(view) {
    const [main, second, third] = [this.across, ...[2, 1, 0].filter((axis) => axis !== this.across)].map((axis) => PLANES[axis]);
    const views = [main, second, third, SLICE_TYPE.RENDER];
    this.view = view % 5;
    this.nv.setSliceType(SLICE_TYPE.MULTIPLANAR);
    this.nv.setCustomLayout(this.view
      ? [{ sliceType: views[this.view - 1], position: [0, 0, 1, 1] }]
      : views.map((sliceType, place) => ({ sliceType, position: place ? [0.66, (place - 1) / 3, 0.34, 1 / 3] : [0, 0, 0.66, 1] })));
  }

  step(direction) {
    const move = [0, 0, 0];
    move[this.across] = direction;
    this.nv.moveCrosshairInVox(...move);
  }

  setWindow(low, high) {
    Object.assign(this.nv.volumes[0], { cal_min: low, cal_max: high });
    this.nv.updateGLVolume();
  }
}

// A volume over the scan, with a mark wherever something is uncertain.
function marksLike(scan, places) {
  const marks = new NVImage();
  const hdr = { ...scan.hdr, datatypeCode: 2, numBitsPerVoxel: 8, scl_slope: 1, scl_inter: 0, cal_min: 0, cal_max: UNCERTAIN };
  Object.assign(marks, { name: 'marks.nii', hdr, img: new Uint8Array(scan.img.length), global_min: 0, global_max: UNCERTAIN, opacity: 0.4 });
  marks.calculateRAS();
  places.forEach((index) => { marks.img[index] = UNCERTAIN; });
  return marks;
}

// The colours of classes as NiiVue takes them.
function paintOf(classes) {
  const table = { R: [0], G: [0], B: [0], A: [0], labels: [''] };
  for (const { value, name, colour } of classes) {
    ['R', 'G', 'B'].forEach((band, place) => { table[band][value] = colour[place]; });
    table.A[value] = 255;
    table.labels[value] = name;
  }
  return table;
}
