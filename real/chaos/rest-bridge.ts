import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Redis } from 'ioredis';

/** Answers HTTP as Upstash does, with a connection of its own to a server for each that it takes. */
export class RestBridge {
  readonly url: string;
  readonly #server: Server;
  readonly #token: string;

  private constructor(server: Server, token: string) {
    this.#server = server;
    this.#token = token;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** To the server at `redisUrl`. */
  static async open(redisUrl: string, token: string): Promise<RestBridge> {
    const connections = new WeakMap<Socket, Redis>();
    const server = createServer(async (request, response) => {
      const { socket } = request;
      let connection = connections.get(socket);
      if (connection === undefined) {
        connection = connect(redisUrl, socket);
        connections.set(socket, connection);
      }
      const words = await wordsOf(request);
      const [status, body] =
        request.headers.authorization === `Bearer ${token}`
          ? await answer(connection, words)
          : [401, { error: 'WRONGPASS invalid or missing auth token' }];
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new RestBridge(server, token);
  }

  get token(): string {
    return this.#token;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** The one is gone with the other. */
function connect(url: string, socket: Socket): Redis {
  const connection = new Redis(url, { retryStrategy: () => null, disconnectTimeout: 1, maxRetriesPerRequest: 0 });
  connection.on('error', () => {});
  connection.on('end', () => socket.destroy());
  socket.on('close', () => connection.disconnect());
  return connection;
}

async function answer(connection: Redis, [name = '', ...args]: string[]): Promise<[number, object]> {
  try {
    return [200, { result: await connection.call(name, ...args) }];
  } catch (error) {
    return [400, { error: error instanceof Error ? error.message : String(error) }];
  }
}

async function wordsOf(request: IncomingMessage): Promise<string[]> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}
