import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Edition } from './instance.js';
import type { Server } from './server.js';

/** A server on a real port. */
export interface Served extends AsyncDisposable {
  readonly port: number;
}

/** Puts a simulated server on a port of the loopback. @param port - 0 for a free one. */
export async function serve(server: Server, port = 0): Promise<Served> {
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    clearTimeout(timer);
    const next = server.nextTimeoutUs();
    if (next === null) return;
    const leftMs = Math.max(0, Math.ceil((next - server.instance.nowUs) / 1000));
    timer = setTimeout(() => {
      server.expireWaiting();
      arm();
    }, leftMs);
  };
  const listener = createServer({ noDelay: true }, (socket) => {
    socket.setEncoding('latin1');
    const address = `${socket.remoteAddress ?? '127.0.0.1'}:${socket.remotePort ?? 0}`;
    const connection = server.connect(
      (bytes) => socket.write(bytes, 'latin1'),
      // What the client still sends is not read: its system is told so.
      () => socket.destroySoon(),
      address,
    );
    socket.on('data', (bytes: string) => {
      connection.receive(bytes);
      arm();
    });
    socket.on('close', () => connection.lost());
    socket.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject);
    listener.listen(port, '127.0.0.1', resolve);
  });
  const sockets = new Set<{ destroy(): void }>();
  listener.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  return {
    port: (listener.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      clearTimeout(timer);
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

const IS_SOURCE = import.meta.url.endsWith('.ts');

/** The command that starts a simulated server as a process of its own, to be followed by `--port` and its number. */
export function serverCommand({ flavour, version }: Edition): readonly string[] {
  const program = fileURLToPath(new URL(`./program.${IS_SOURCE ? 'ts' : 'js'}`, import.meta.url));
  return [process.execPath, ...(IS_SOURCE ? ['--import', 'tsx'] : []), program, flavour, version];
}
