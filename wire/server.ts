import type { Call, Command } from './command.js';
import { COMMANDS } from './commands/index.js';
import { Instance, type Settings } from './instance.js';
import { Failure, fail, NO_REPLY, Push, printed, type Reply, Several, Status, wrongArity } from './reply.js';
import { encode, ProtocolError, RequestParser } from './resp.js';
import { Session } from './session.js';

const QUEUED = new Status('QUEUED');
const NOT_AUTHENTICATED = new Failure('NOAUTH Authentication required.');

/** What those who subscribe may do besides, in RESP2. */
const FOR_SUBSCRIBERS: ReadonlySet<string> = new Set([
  'ping',
  'subscribe',
  'ssubscribe',
  'unsubscribe',
  'sunsubscribe',
  'psubscribe',
  'punsubscribe',
  'quit',
  'reset',
]);
const NEVER_QUEUED: ReadonlySet<string> = new Set(['exec', 'discard', 'multi', 'watch', 'quit', 'reset']);

const MAX_SAID = 128;

function unknownCommand(argv: readonly string[]): Failure {
  let said = '';
  for (const word of argv.slice(1)) {
    if (said.length >= MAX_SAID) break;
    said += `'${printed(word).slice(0, MAX_SAID - said.length)}' `;
  }
  return fail(`unknown command '${printed(argv[0] ?? '').slice(0, MAX_SAID)}', with args beginning with: ${said}`);
}

function unknownSubcommand(argv: readonly string[]): Failure {
  const [container = '', sub = ''] = argv;
  return fail(`unknown subcommand '${printed(sub).slice(0, MAX_SAID)}'. Try ${container.toUpperCase()} HELP.`);
}

/** A simulated Redis server: its process, without sockets. All time and chance are handed in. */
export class Server {
  /** Whether it knows a command, by name; for nodes that know fewer. */
  allows: (name: string) => boolean = () => true;
  /** What it keeps; for tests and for those who inspect a node. */
  readonly instance: Instance;

  constructor(settings: Settings) {
    this.instance = new Instance(settings);
    this.instance.run = (argv, session) => this.call(argv, session, true);
    this.instance.runInScript = (argv, session, isReadOnly) => this.runInScript(argv, session, isReadOnly);
    this.instance.push = (session, reply) => this.instance.sessions.get(session)?.(encode(reply, session.protocol));
  }

  /**
   * Opens a connection.
   * @param write - Takes the bytes that the server sends, in Latin-1.
   * @param close - Is told when the server closes the connection.
   * @param address - Of the client, `127.0.0.1:50000`.
   */
  connect(write: (bytes: string) => void, close: () => void = () => {}, address = '127.0.0.1:0'): Connection {
    const { instance } = this;
    const isOpen = instance.config.get('requirepass') === '';
    const session = new Session(instance.newId(), address, isOpen, instance.nowUs);
    return new Connection(this, session, write, close);
  }

  /** When the next command that waits gives up, µs of the node's clock; `null` if none does. */
  nextTimeoutUs(): number | null {
    let next = Number.POSITIVE_INFINITY;
    for (const { waiting } of this.instance.sessions.keys()) next = Math.min(next, waiting?.until ?? next);
    return Number.isFinite(next) ? next : null;
  }

  /** Has those give up whose time is over. */
  expireWaiting(): void {
    const { instance } = this;
    for (const session of [...instance.sessions.keys()]) {
      const { waiting } = session;
      if (waiting === null || waiting.until > instance.nowUs) continue;
      waiting.giveUp();
      instance.stopWaiting(session);
    }
    this.resumeReleased();
  }

  /** The command of this name, or of this name and subcommand, in this edition. */
  find(argv: readonly string[]): Command | undefined {
    const { instance } = this;
    const known = (it: Command | undefined): Command | undefined =>
      it === undefined || it.since === undefined || instance.has(it.since) ? it : undefined;
    const name = argv[0]?.toLowerCase() ?? '';
    const command = this.allows(name) ? known(COMMANDS.get(name)) : undefined;
    if (command?.subcommands === undefined || argv.length < 2) return command;
    return known(command.subcommands.get(argv[1]?.toLowerCase() ?? ''));
  }

  /** Carries out a request of a connection, at one instant of the node's clock. */
  execute(argv: readonly string[], session: Session): Reply {
    this.instance.commandsProcessed++;
    return this.instance.atOneInstant(() => this.process(argv, session));
  }

  private process(argv: readonly string[], session: Session): Reply {
    const command = this.find(argv);
    const refused = this.refusal(command, argv, session);
    if (refused !== null || command === undefined) {
      if (command?.name === 'exec' && refused !== null) return this.abandoned(session, refused);
      if (session.transaction !== null) session.transaction.failed = true;
      return refused ?? unknownCommand(argv);
    }
    session.lastCommand = command.name;
    if (session.transaction !== null && !NEVER_QUEUED.has(command.name)) {
      session.transaction.commands.push(argv);
      return QUEUED;
    }
    return this.carryOut(command, argv, session, false);
  }

  /** `EXEC` itself is refused: nothing of the transaction stays. */
  private abandoned(session: Session, { text }: Failure): Failure {
    session.transaction = null;
    this.instance.unwatch(session);
    return new Failure(`EXECABORT Transaction discarded because of: ${text.replace(/^ERR /, '')}`);
  }

  private refusal(command: Command | undefined, argv: readonly string[], session: Session): Failure | null {
    if (command === undefined)
      return this.allows(argv[0]?.toLowerCase() ?? '') &&
        COMMANDS.get(argv[0]?.toLowerCase() ?? '')?.subcommands !== undefined
        ? unknownSubcommand(argv)
        : unknownCommand(argv);
    if (!hasArity(command, argv)) return wrongArity(command.name);
    if (!session.authenticated && !command.flags.includes('a')) return NOT_AUTHENTICATED;
    if (session.transaction !== null && command.flags.includes('t'))
      return fail('Command not allowed inside a transaction');
    if (session.isSubscriber && session.protocol === 2 && !FOR_SUBSCRIBERS.has(command.name))
      return fail(
        `Can't execute '${command.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context`,
      );
    return null;
  }

  private call(argv: readonly string[], session: Session, isNested: boolean): Reply {
    const command = this.find(argv);
    return command === undefined ? unknownCommand(argv) : this.carryOut(command, argv, session, isNested);
  }

  private carryOut(command: Command, argv: readonly string[], session: Session, isNested: boolean): Reply {
    const { instance } = this;
    const call: Call = { instance, session, keys: instance.keyspace(session.database), isNested };
    try {
      return command.handler(argv, call);
    } catch (error) {
      if (error instanceof Failure) return error;
      throw error;
    }
  }

  private runInScript(argv: readonly string[], session: Session, isReadOnly: boolean): Reply {
    const command = this.find(argv);
    if (command === undefined) return fail('Unknown Redis command called from script');
    if (!hasArity(command, argv)) return fail('Wrong number of args calling Redis command from script');
    if (command.flags.includes('s')) return fail('This Redis command is not allowed from script');
    if (isReadOnly && /[wp]/.test(command.flags)) return fail('Write commands are not allowed from read-only scripts.');
    return this.carryOut(command, argv, session, true);
  }

  /** Serves those who wait for what a command has brought, and closes connections that are to be closed. */
  afterCommand(): void {
    const { instance } = this;
    if (instance.hasReady) instance.atOneInstant(() => instance.serveWaiting());
    this.resumeReleased();
    for (const session of instance.sessions.keys()) if (session.isClosing) this.closing(session);
  }

  private readonly connections = new Map<Session, Connection>();

  /** A connection is there. */
  opened(connection: Connection, write: (bytes: string) => void): void {
    this.instance.sessions.set(connection.session, write);
    this.connections.set(connection.session, connection);
  }

  /** A connection is gone: nothing of it stays. */
  closed(session: Session): void {
    const { instance } = this;
    instance.unwatch(session);
    instance.stopWaiting(session);
    instance.sessions.delete(session);
    this.connections.delete(session);
  }

  private resumeReleased(): void {
    const { released } = this.instance;
    if (released.length === 0) return;
    for (const session of released.splice(0)) this.connections.get(session)?.resume();
  }

  private closing(session: Session): void {
    const connection = this.connections.get(session);
    if (connection !== undefined && !connection.isBusy) connection.end();
  }
}

function hasArity({ arity }: Command, { length }: readonly string[]): boolean {
  return arity >= 0 ? length === arity : length >= -arity;
}

/** Whether it comes to those too who asked for silence. */
function isPushed(reply: Reply): boolean {
  return reply instanceof Several ? reply.replies.every(isPushed) : reply instanceof Push;
}

/** The server's side of one connection. */
export class Connection {
  readonly session: Session;
  /** A chunk of its bytes is being read. */
  isBusy = false;
  private readonly server: Server;
  private readonly parser = new RequestParser();
  private readonly read: (readonly string[])[] = [];
  private readonly write: (bytes: string) => void;
  private readonly close: () => void;
  private isOpen = true;
  private out = '';

  constructor(server: Server, session: Session, write: (bytes: string) => void, close: () => void) {
    this.server = server;
    this.session = session;
    this.write = write;
    this.close = close;
    server.opened(this, (bytes) => this.send(bytes));
  }

  /** Takes bytes of the client, in Latin-1, and carries out the requests that are whole. */
  receive(bytes: string): void {
    if (!this.isOpen) return;
    this.parser.feed(bytes);
    this.resume();
  }

  /** Takes requests of the client that somebody has read from its bytes. */
  take(requests: readonly (readonly string[])[]): void {
    if (!this.isOpen) return;
    this.read.push(...requests);
    this.resume();
  }

  /** Goes on with requests that came while one waited. */
  resume(): void {
    if (this.isBusy || !this.isOpen) return;
    this.isBusy = true;
    const { session, server } = this;
    while (session.waiting === null && !session.isClosing) {
      const request = this.read.shift() ?? this.parser.next(session.authenticated);
      if (request === null) break;
      if (request instanceof ProtocolError) {
        this.out += encode(request.failure, session.protocol);
        session.isClosing = true;
      } else this.perform(request);
      server.afterCommand();
    }
    this.isBusy = false;
    this.flush();
    if (session.isClosing) this.end();
  }

  private perform(request: readonly string[]): void {
    const { session } = this;
    const reply = this.server.execute(request, session);
    const isSilent = session.replies === 'off' || session.replies === 'skip';
    if (session.replies === 'skip') session.replies = 'on';
    if (session.replies === 'skip-next') session.replies = 'skip';
    if ((!isSilent || isPushed(reply)) && reply !== NO_REPLY) this.out += encode(reply, session.protocol);
  }

  private send(bytes: string): void {
    this.out += bytes;
    if (!this.isBusy) this.flush();
  }

  private flush(): void {
    if (this.out === '') return;
    const bytes = this.out;
    this.out = '';
    this.write(bytes);
  }

  /** The server closes it. */
  end(): void {
    if (!this.isOpen) return;
    this.lost();
    this.close();
  }

  /** The client, or the network, has closed it. */
  lost(): void {
    this.isOpen = false;
    this.server.closed(this.session);
  }
}
