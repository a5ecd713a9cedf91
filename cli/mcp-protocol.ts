import { createInterface } from 'node:readline';

/*
 * The Model Context Protocol over stdio: JSON-RPC, one message in a line. What is here is what a server of tools needs.
 * The official SDK for servers would make the installed package a quarter larger; its client is what this is tested with.
 */

/** A tool that a client may call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of its arguments. */
  readonly inputSchema: object;
  /** @throws Error whose message is told to who has called. */
  readonly call: (given: unknown, call: Call) => Promise<object>;
}

/** One call of a tool. */
export interface Call {
  /** Aborted where the client does not want the result any more, or has gone. */
  readonly signal: AbortSignal;
  readonly progress: (done: number, total: number, message: string) => void;
}

/** What a server has, and says of itself. */
export interface Server {
  readonly tools: readonly Tool[];
  readonly version: string;
  readonly instructions: string;
}

/** Revisions of the protocol, newest first: what of them is used here is the same in all. */
const REVISIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;

/** An error of the protocol, with its code. */
class ProtocolError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

type Fields = Readonly<Record<string, unknown>>;

/** Answers a client until its input ends. */
export async function serve(
  server: Server,
  input: NodeJS.ReadableStream,
  write: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const session = new Session(server, write);
  const lines = createInterface({ input, signal, crlfDelay: Number.POSITIVE_INFINITY });
  for await (const line of lines) if (line.trim() !== '') session.take(line);
  session.end();
}

class Session {
  private readonly server: Server;
  private readonly write: (line: string) => void;
  private readonly calls = new Map<unknown, AbortController>();
  /** One call after the other: each takes all of a processor. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(server: Server, write: (line: string) => void) {
    this.server = server;
    this.write = write;
  }

  take(line: string): void {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      this.send({ id: null, error: { code: PARSE_ERROR, message: 'this line is no JSON' } });
      return;
    }
    if (!isFields(message) || typeof message.method !== 'string') {
      // Nothing is asked of clients, so that no answer is waited for.
      if (!isFields(message) || !('id' in message))
        this.send({ id: null, error: { code: INVALID_REQUEST, message: 'this is no request' } });
      return;
    }
    const { id, method } = message;
    const params = isFields(message.params) ? message.params : {};
    if (id === undefined || id === null) this.notified(method, params);
    else void this.answer(id, method, params);
  }

  /** No call is worth its work any more. */
  end(): void {
    for (const call of this.calls.values()) call.abort();
  }

  private notified(method: string, { requestId }: Fields): void {
    if (method === 'notifications/cancelled') this.calls.get(requestId)?.abort();
  }

  private async answer(id: unknown, method: string, params: Fields): Promise<void> {
    const call = new AbortController();
    this.calls.set(id, call);
    try {
      const result = await this.resultOf(method, params, call.signal);
      if (!call.signal.aborted) this.send({ id, result });
    } catch (error) {
      const code = error instanceof ProtocolError ? error.code : INVALID_REQUEST;
      this.send({ id, error: { code, message: messageOf(error) } });
    } finally {
      this.calls.delete(id);
    }
  }

  private async resultOf(method: string, params: Fields, signal: AbortSignal): Promise<object> {
    const { tools, version, instructions } = this.server;
    switch (method) {
      case 'initialize': {
        const asked = REVISIONS.find((it) => it === params.protocolVersion);
        const serverInfo = { name: 'lockstep', version };
        return { protocolVersion: asked ?? REVISIONS[0], capabilities: { tools: {} }, serverInfo, instructions };
      }
      case 'ping':
        return {};
      case 'tools/list':
        return { tools: tools.map(({ call: _, ...shown }) => shown) };
      case 'tools/call': {
        const tool = tools.find(({ name }) => name === params.name);
        if (tool === undefined) throw new ProtocolError(INVALID_PARAMS, `there is no tool ${String(params.name)}`);
        const turn = this.last.then(() => this.called(tool, params, signal));
        this.last = turn;
        return await turn;
      }
      default:
        throw new ProtocolError(METHOD_NOT_FOUND, `there is no method ${method}`);
    }
  }

  /** What went wrong in a tool is a result: it is for who has called, and not for their client. */
  private async called(tool: Tool, { arguments: given, _meta }: Fields, signal: AbortSignal): Promise<object> {
    const progressToken = isFields(_meta) ? _meta.progressToken : undefined;
    const progress: Call['progress'] = (done, total, message) => {
      if (progressToken === undefined || signal.aborted) return;
      const params = { progressToken, progress: done, total, message };
      this.send({ method: 'notifications/progress', params });
    };
    try {
      if (signal.aborted) throw new Error('it was cancelled');
      return textOf(JSON.stringify(await tool.call(given ?? {}, { signal, progress })));
    } catch (error) {
      return { ...textOf(messageOf(error)), isError: true };
    }
  }

  private send(message: object): void {
    this.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }
}

function textOf(text: string): object {
  return { content: [{ type: 'text', text }] };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
