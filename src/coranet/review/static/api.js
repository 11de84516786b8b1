// What the page asks of the server. An answer that is no success becomes an error with the server's sentence.

async function answered(response) {
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  const error = new Error(said.error || `The server answered ${response.status}.`);
  error.status = response.status;
  throw error;
}

const url = (name, rest = '') => `/api/case/${encodeURIComponent(name)}${rest}`;
const get = async (path) => (await answered(await fetch(path))).json();
const post = async (path, content) =>
  (await answered(await fetch(path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(content), keepalive: Boolean(content.closed),
  }))).json();

export const readQueue = () => get('/api/queue');
export const readCase = (name) => get(url(name));
export const fileOf = (name, file) => url(name, `/${file}`);
export const readBytes = async (name, file) => (await answered(await fetch(fileOf(name, file)))).arrayBuffer();
export const stayAlive = (name, content) => post(url(name, '/alive'), content);
export const saveCase = (name, content) => post(url(name, '/save'), content);
export const readTraining = () => get('/api/train');
export const startTraining = () => post('/api/train', {});

// A NIfTI file as text: packed, then in letters that JSON takes.
export async function packed(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream('gzip'));
  const small = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = '';
  for (let at = 0; at < small.length; at += 0x8000) text += String.fromCharCode(...small.subarray(at, at + 0x8000));
  return btoa(text);
}
