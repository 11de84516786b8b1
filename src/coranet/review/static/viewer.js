// NiiVue with a scan, and the label as its drawing: where one looks, what is drawn, how it is laid out. Nothing that it has
// is written again, but for painting slices: see slices.js.

import { Niivue, NVImage, SLICE_TYPE } from '/static/niivue.js';
import { readBytes } from '/static/api.js';
import { paintSlices } from '/static/slices.js';
import { Space } from '/static/space.js';

const LINES = { conservative: '#35d0e6', radical: '#ffa940' };
const PLANES = [SLICE_TYPE.SAGITTAL, SLICE_TYPE.CORONAL, SLICE_TYPE.AXIAL]; // across x, y and z
const UNDOS = 64;
// What NiiVue draws of a slice: nothing, for it is painted beneath.
const CLEAR = '#version 300 es\nprecision highp float;\nout vec4 color;\nvoid main() { color = vec4(0.0); }';

export class Viewer {
  constructor() {
    this.shown = { region: true, lines: true, label: true };
    this.view = 0;
    this.nv = new Niivue({
      backColor: [0, 0, 0, 0], crosshairColor: [0.37, 0.78, 1, 0.55], crosshairWidth: 0.2, crosshairGap: 4, isRadiologicalConvention: true,
      show3Dcrosshair: true, dragAndDropEnabled: false, clipPlaneHotKey: '', cycleClipPlaneHotKey: '', viewModeHotKey: '',
      maxDrawUndoBitmaps: UNDOS, loadingText: '', logLevel: 'silent', isResizeCanvas: true, isNearestInterpolation: true, fontSizeScaling: 0.35,
    });
    Object.assign(this, { undos: 0, closest: 1, marked: [], drawing: 0 });
  }

  async open(canvas, slices, onDrawn, onWindow) {
    await this.nv.attachToCanvas(canvas);
    this.nv.setCustomSliceShader(CLEAR);
    this.space = new Space(this.nv);
    const draw = this.nv.drawScene.bind(this.nv);
    const pen = slices.getContext('2d', { willReadFrequently: this.space.isSoftware }); // where there is no card, without one
    this.nv.drawScene = () => { // of many changes, one picture
      this.drawing ||= requestAnimationFrame(() => this.#draw(draw, pen));
    };
    this.nv.onDrawingChanged = (action) => {
      if (action !== 'draw') return;
      this.undos = Math.min(this.undos + 1, UNDOS - 1);
      onDrawn();
    };
    this.nv.onIntensityChange = (volume) => onWindow(volume.cal_min, volume.cal_max);
  }

  #draw(draw, pen) {
    this.drawing = 0;
    const { width, height } = this.nv.gl.canvas;
    if (!width || !height) return; // another view is shown
    const { label, region, lines } = this.shown;
    draw();
    paintSlices(pen, this.nv, {
      label: label && this.nv.drawBitmap,
      region: region && this.region,
      colours: this.colours,
      piece: this.marked,
      outlines: lines ? this.outlines : [],
    });
    this.space.paint(pen);
  }

  // The voxels of a channel and of the prediction, as they lie on disk.
  read(name, channel = 0) { return Promise.all([readBytes(name, `image${channel}.nii`), readBytes(name, 'prediction.bin')]); }

  async load(info, classes, pieces, [image, prediction], channel = 0) {
    const saved = info.saved ? await readBytes(info.name, 'label.bin') : null;
    const [cal_min, cal_max] = channel ? [] : info.window;
    const scan = await NVImage.loadFromUrl({ url: image, name: 'image.nii', colormap: 'gray', cal_min, cal_max });
    this.#turn = { dims: scan.hdr.dims, perm: scan.permRAS, ras: scan.dimsRAS };
    this.across = this.#turn.perm.findIndex((own) => Math.abs(own) - 1 === info.axis);
    this.space.show(scan, pieces.index);
    pieces.places = pieces.index.map((index) => this.place(index));
    this.#paint(classes);
    this.#load(prediction);
    this.#outline(pieces);
    if (saved) this.#load(saved);
    this.nv.setDrawingEnabled(false);
    this.#showLabel();
    [this.undos, this.marked] = [0, []];
    if (info.pieces.length) this.frame(pieces.finest.map((piece) => piece.middle));
    this.look(this.view);
  }

  #turn = null;

  // The colours of classes, here and as NiiVue takes them.
  #paint(classes) {
    this.colours = [[0, 0, 0]];
    const table = { R: [0], G: [0], B: [0], A: [0], labels: [''] };
    for (const { value, name, colour } of classes) {
      this.colours[value] = colour;
      ['R', 'G', 'B'].forEach((band, place) => { table[band][value] = colour[place]; });
      table.A[value] = 255;
      table.labels[value] = name;
    }
    this.nv.setDrawColormap(table);
  }

  // The label, from the bytes of its voxels in the scan's order.
  #load(bytes) {
    const { hdr, permRAS } = this.nv.volumes[0];
    if (!this.nv.loadDrawing({ hdr, permRAS, img: new Uint8Array(bytes) })) throw new Error('The label does not fit the scan.');
  }

  // What is uncertain, and the conservative and the radical answer, as whole maps; the prediction is what is drawn now.
  #outline(pieces) {
    this.region = new Uint8Array(this.nv.drawBitmap.length);
    pieces.places.forEach((place) => { this.region[place] = 1; });
    this.outlines = Object.entries(LINES).map(([name, colour]) => {
      const map = this.nv.drawBitmap.slice();
      pieces.each(pieces.finest.keys(), name, (place, value) => { map[place] = value; });
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
    change((place, value) => { this.nv.drawBitmap[place] = value; });
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

  // The piece in question.
  mark(each) {
    this.marked = [];
    each((place) => { this.marked.push(place); });
    this.nv.drawScene();
  }

  toggle(name) {
    this.shown[name] = !this.shown[name];
    if (name === 'label') this.#showLabel();
    if (name === 'region') this.space.mark(this.shown.region);
    this.nv.drawScene();
    return this.shown[name];
  }

  #showLabel() {
    this.nv.setDrawOpacity(this.shown.label ? 0.28 : 0);
    this.space.change('label');
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
