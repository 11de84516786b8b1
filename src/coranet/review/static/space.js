// The view in space: NiiVue's own, of a copy with few enough voxels, made when nothing has changed for a while.
// Software that draws in place of a graphics card does so only then, or when the view is turned; else the last picture stays.

import { marksIn, sampled, thinned } from '/static/copies.js';

const REST = { card: 150, software: 800 }; // milliseconds without a change
const ENOUGH = { card: Infinity, software: 1e6 }; // voxels

export class Space {
  // Takes over all by which NiiVue brings volumes to the graphics card.
  constructor(nv) {
    const names = ['refreshLayers', 'refreshDrawing', 'r8Tex', 'drawImage3D'];
    this.own = Object.fromEntries(names.map((name) => [name, nv[name].bind(nv)]));
    this.isSoftware = drawsBySoftware(nv.gl);
    this.kind = this.isSoftware ? 'software' : 'card';
    Object.assign(this, { nv, copy: null, stale: new Set(), isMarked: true, timer: 0, view: '', place: null });
    this.last = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    nv.updateGLVolume = () => this.change('scan');
    nv.refreshLayers = () => this.change('scan');
    nv.refreshDrawing = () => this.change('label');
    nv.r8Tex = (texture, unit, dims, isNew) => this.own.r8Tex(texture, unit, this.copy?.dimsRAS ?? dims, isNew);
    nv.drawImage3D = (...view) => { if (nv.overlays.length) this.#draw(...view); };
  }

  // NiiVue knows at once where a scan lies, and has its voxels and those that are uncertain later.
  show(scan, uncertain) {
    Object.assign(this.nv, { volumes: [scan], overlays: [], back: scan });
    Object.assign(this, { scan, uncertain, copy: thinned(scan, 1), view: '' });
    this.last.canvas.width = 0;
    this.#layer(this.copy, 0);
    this.change('scan', 'marks', 'label');
  }

  mark(isMarked) {
    this.isMarked = isMarked;
    this.change('marks');
  }

  change(...names) {
    if (!this.copy) return;
    names.forEach((name) => this.stale.add(name));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#bring(), REST[this.kind]);
    this.nv.drawScene();
  }

  // The last picture, beneath the cross that NiiVue draws.
  paint(pen) {
    const { width, height } = this.last.canvas;
    if (this.place && width && height) pen.drawImage(this.last.canvas, this.place[0], this.place[1]);
    this.place = null;
  }

  #draw(...view) {
    const { nv, last, own } = this;
    if (!this.isSoftware) { own.drawImage3D(...view); return; }
    const { leftTopWidthHeight: place } = nv.screenSlices.at(-1);
    const [left, top, width, height] = place;
    const wanted = [place, ...view].join();
    this.place = place;
    if (nv.uiData.mouseDepthPicker) { own.drawImage3D(...view); return; } // it is read at once, and cleared below
    if (this.view !== wanted) {
      this.view = wanted;
      nv.clearBounds(undefined, place);
      own.drawImage3D(...view);
      Object.assign(last.canvas, { width, height });
      last.drawImage(nv.gl.canvas, left, top, width, height, 0, 0, width, height);
    }
    nv.clearBounds(undefined, place);
  }

  #bring() {
    const { nv, scan, stale } = this;
    if (stale.has('scan')) {
      this.copy = thinned(scan, ENOUGH[this.kind]);
      nv.drawTexture = nv.r8Tex(nv.drawTexture, nv.gl.TEXTURE7);
      this.#layer(this.copy, 0);
    }
    if (stale.has('scan') || stale.has('marks')) {
      const marks = marksIn(scan, this.copy, this.isMarked ? this.uncertain : []);
      Object.assign(nv, { volumes: [scan, marks], overlays: [marks] });
      this.#layer(marks, 1);
    }
    const label = nv.drawBitmap;
    nv.drawBitmap = sampled(label, scan.dimsRAS, this.copy.dimsRAS);
    this.#asCopy(() => this.own.refreshDrawing(false));
    nv.drawBitmap = label;
    stale.clear();
    this.view = '';
    nv.drawScene();
  }

  #layer(volume, layer) { this.#asCopy(() => this.own.refreshLayers(volume, layer)); }

  // To NiiVue the scan has as many voxels as its copy, for as long as this takes.
  #asCopy(work) {
    const { scan, scan: { matRAS, dimsRAS: dims, pixDimsRAS: pixDims } } = this;
    scan.dims = this.copy.dimsRAS;
    work();
    Object.assign(scan, { matRAS, dims, pixDims });
  }
}

function drawsBySoftware(gl) {
  const known = gl.getExtension('WEBGL_debug_renderer_info');
  return /swiftshader|llvmpipe|software|basic render/i.test(gl.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
}
