/** What a page carries packed: gzip in base64. */
export function unpacked(text: string): Response {
  const bytes = Uint8Array.from(atob(text), (it) => it.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
}
