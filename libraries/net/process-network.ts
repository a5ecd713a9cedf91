import { allNodes, NO_NODES, type NodeSet, oneNode, union, without } from '../../core/index.js';
import type { SimNode } from '../../sim/index.js';
import type { Server } from '../redis/server.js';
import { addressOf, HTTPS_PORT, ipOf } from './addresses.js';
import { type ClientEnd, Connection, type Line, type Opener } from './connection.js';
import { type Group, Requests } from './requests.js';
import { Rest } from './rest.js';
import type { Network } from './socket.js';

/** What the networks of all processes of a run share. */
interface Machines {
  readonly nodes: readonly SimNode[];
  serverOf(node: SimNode): Server;
  /** The index of the node at this place; -1 for none. */
  nodeAt(host: string, port: number): number;
  /** What answers `fetch` in the place of servers that are no nodes; a run that calls one is refused where there is none. */
  readonly otherServers: typeof fetch | null;
  /** Nodes whose machines are off. */
  readonly off: ReadonlySet<number>;
}

/** A process that has a network. */
export interface NetworkUser extends Opener {
  /** Sends commands over a connection. */
  transmit(connection: Connection, node: number, commands: Group): void;
  /** It tries to reach what is no simulated node. */
  unreachable(where: string): void;
  /** It does what it cannot do here, in words that follow its name: gives what to throw. */
  refuses(what: string): Error;
}

/** The network of one simulated process: it leads to the simulated nodes, and nowhere else. */
export class ProcessNetwork implements Network {
  private readonly user: NetworkUser;
  private readonly machines: Machines;
  private readonly connections = new Map<Connection, number>();

  constructor(user: NetworkUser, machines: Machines) {
    this.user = user;
    this.machines = machines;
  }

  /** @param where - The same place, as its user has written it. */
  connect(host: string, port: number, end: ClientEnd, where: string = port > 0 ? `${host}:${port}` : host): Line {
    const { user, machines } = this;
    const index = machines.nodeAt(host, port);
    const node = machines.nodes[index];
    if (node === undefined) {
      user.unreachable(where);
      return NOWHERE;
    }
    const server = machines.serverOf(node);
    const address = `${ipOf(index)}:${addressOf(index).port}`;
    const peer = {
      node,
      server,
      address,
      get isOff(): boolean {
        return machines.off.has(index);
      },
    };
    const connection = new Connection(user, peer, end);
    this.connections.set(connection, index);
    const requests = new Requests();
    return {
      open: () => connection.open(),
      write: (bytes) => {
        const groups = requests.take(bytes);
        connection.isAscii = requests.isAscii;
        for (const group of groups) user.transmit(connection, index, group);
      },
      wroteInVain: (bytes) => connection.wroteInVain(bytes),
      finish: () => connection.finish(),
      close: () => {
        this.connections.delete(connection);
        connection.close();
      },
    };
  }

  private restMade: Rest | null = null;

  get rest(): Rest {
    this.restMade ??= new Rest({
      connect: (url, end) => this.connect(url.hostname, HTTPS_PORT, end, url.host),
      refuses: (what) => this.user.refuses(what),
      other: (host) => {
        const { otherServers } = this.machines;
        return otherServers === null || this.machines.nodeAt(host, HTTPS_PORT) >= 0 ? null : otherServers;
      },
    });
    return this.restMade;
  }

  lookup(host: string): string | null {
    const index = this.machines.nodeAt(host, addressOf(0).port);
    return this.machines.nodes[index] === undefined ? null : ipOf(index);
  }

  /** Nodes to which a connection leads that is ready. */
  get reached(): NodeSet {
    let nodes = NO_NODES;
    for (const [connection, index] of this.connections) if (connection.isReady) nodes = union(nodes, oneNode(index));
    return nodes;
  }

  /** Nodes to which no connection leads over which the client sends what it is told to send; it keeps that until then. */
  get unconnected(): NodeSet {
    let used = NO_NODES;
    let waiting = NO_NODES;
    for (const [connection, index] of this.connections)
      if (connection.isInUse) used = union(used, oneNode(index));
      else waiting = union(waiting, oneNode(index));
    for (const host of this.restMade?.missed ?? [])
      waiting = union(waiting, oneNode(this.machines.nodeAt(host, HTTPS_PORT)));
    return union(without(allNodes(this.machines.nodes.length), used), waiting);
  }

  /** The process is dead: its machine closes what it had open. */
  die(): void {
    for (const connection of this.connections.keys()) connection.close();
    this.connections.clear();
    this.restMade = null;
  }

  nodeDied(node: number): void {
    for (const [connection, index] of this.connections) if (index === node) connection.nodeDied();
  }

  nodeIsBack(node: number): void {
    for (const [connection, index] of this.connections) if (index === node) connection.nodeIsBack();
  }
}

const NOWHERE: Line = { open: () => {}, write: () => {}, wroteInVain: () => {}, finish: () => {}, close: () => {} };
