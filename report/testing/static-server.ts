import { createReadStream } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, normalize } from 'node:path';

/** Any host of static files, on loopback. */
export interface StaticServer {
  readonly url: string;
  close(): void;
}

/** Serves the files of a folder. */
export async function serveFolder(folder: string): Promise<StaticServer> {
  const server = createServer(({ url = '/' }, response) => {
    const path = normalize(new URL(url, 'http://localhost').pathname);
    const file = createReadStream(join(folder, path.endsWith('/') ? `${path}index.html` : path));
    file.on('error', () => response.writeHead(404).end());
    file.once('open', () => {
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
      file.pipe(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
