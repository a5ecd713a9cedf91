import { formatDurationMs } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { formatCount, formatList, plural } from '../text/format.js';
import { listOf, nodesOf, numberOf, saidOf, textOf } from './details.js';
import { describeFault, NodeKeys } from './fault-words.js';
import type { Scene } from './picture/scene.js';
import { checkWords, reasonWords } from './rows.js';
import { nodeList } from './words.js';

const MS = 1000;
const NO_KEYS = new NodeKeys();

/** What one event is, in a few words. */
export function describeEvent(event: TraceEvent, scene: Scene): string {
  const token = scene.tokenName(numberOf(event, 'token'));
  switch (event.kind) {
    case 'call':
      return `calls acquire(${formatList(listOf(event, 'resources'))}), TTL ${formatCount(numberOf(event, 'ttlMs'))} ms`;
    case 'send':
    case 'lost':
    case 'execute':
    case 'reply':
    case 'dropped':
    case 'no-script':
      return messageWords(event, scene);
    case 'claim':
      // Who saw a client only does not know who granted.
      return `holds ${token}${granted(event)}, valid until ${until(event)}`;
    case 'extended':
      return `${token} extended, valid until ${until(event)}`;
    case 'not-extended':
      return `not extended: ${reasonWords(event)}`;
    case 'acquire-failed':
      return `gives up: ${reasonWords(event)}`;
    case 'expired':
      return `sees that the validity of ${token} has ended`;
    case 'release-call':
      return `calls release of ${token}`;
    case 'released':
      return `release of ${token} has returned`;
    case 'key-set':
      return `${textOf(event, 'resource')} = ${token}, expires ${ms(event, 'goneUs')}`;
    case 'key-lengthened':
      return `${token} lengthened, expires ${ms(event, 'goneUs')}`;
    case 'key-gone':
      return `${token} ${textOf(event, 'how')}`;
    case 'counter-set':
      return `counter ${numberOf(event, 'counter')}`;
    case 'write-checked':
    case 'write-sent':
    case 'write-arrived':
    case 'write-refused':
    case 'write-skipped':
      return writeWords(event, token);
    default:
      return describeFault(event, scene.context, NO_KEYS)?.what ?? event.kind;
  }
}

function granted(event: TraceEvent): string {
  const nodes = nodesOf(event, 'granted');
  return nodes.length === 0 ? '' : `: ${nodeList(nodes)} granted`;
}

function until(event: TraceEvent): string {
  return ms(event, 'endUs');
}

function ms(event: TraceEvent, name: string): string {
  return formatDurationMs(numberOf(event, name));
}

function writeWords(event: TraceEvent, token: string): string {
  const what = `write under ${token} to ${formatList(listOf(event, 'resources'))}`;
  if (event.kind === 'write-sent') return `sends a ${what}`;
  if (event.kind === 'write-checked') return checkWords(event);
  if (event.kind === 'write-skipped') return 'does not write: too little validity left';
  if (event.kind === 'write-refused') return `${what} refused`;
  return `${what} arrives${numberOf(event, 'stale') === 1 ? ', after its claim' : ''}`;
}

/** The command of a message, in the words of Redis. */
export function commandOf(event: TraceEvent, scene: Scene): string {
  const token = scene.tokenName(numberOf(event, 'token'));
  const said = saidOf(event, token);
  if (said !== '') return said;
  switch (textOf(event, 'operation')) {
    case 'acquire':
      return `SET ${token} NX PX ${formatCount(numberOf(event, 'ttlMs'))}`;
    case 'extend':
      return `PEXPIRE ${formatCount(numberOf(event, 'ttlMs'))} if ${token}`;
    case 'release':
      return `DEL if ${token}`;
    case 'read-counter':
      return 'GET counter';
    default:
      return `SET counter ${numberOf(event, 'counter')} if lower`;
  }
}

function messageWords(event: TraceEvent, scene: Scene): string {
  const command = commandOf(event, scene);
  const [client, node, answer] = [textOf(event, 'client'), textOf(event, 'node'), textOf(event, 'answer')];
  const isRequest = event.process === client;
  switch (event.kind) {
    case 'execute':
      return `does ${command} of ${client}`;
    case 'reply':
      return `hears ${answer} from ${node} to ${command}`;
    case 'no-script':
      return `hears NOSCRIPT from ${node} to ${command}`;
    case 'dropped':
      return answer === '' ? `is not there for ${command} of ${client}` : `no longer waits for ${node}`;
    default: {
      const what = isRequest ? `${command} → ${node}` : `${answer} → ${client}, to ${command}`;
      return event.kind === 'lost' ? `${what}: lost` : what;
    }
  }
}

/** The rule by which an event came out as it did, with its arithmetic; empty where nothing was decided. */
export function ruleOf(event: TraceEvent, scene: Scene): string {
  return (scene.lock === 'foreign' ? foreignRule(event) : null) ?? ownRule(event, scene);
}

/** What can be said of a lock that is not this project's: how it decides is its own affair. `null` for nodes. */
function foreignRule(event: TraceEvent): string | null {
  switch (event.kind) {
    case 'claim': {
      const votes = numberOf(event, 'votes');
      const granted = `${votes} of ${plural(numberOf(event, 'nodes'), 'node')} had granted it`;
      return `${granted}. That it is held, and until when, is what the client itself says.`;
    }
    case 'extended':
      return 'That it is extended, and until when, is what the client itself says.';
    case 'reply':
      return 'One more answer: what follows from it is for the client to decide.';
    case 'expired':
      return 'The client itself says that its lock is over, or its clock has reached the end that it had named.';
    case 'no-script':
      return 'The process of the node is new and does not know the script by its hash.';
    default:
      return null;
  }
}

function ownRule(event: TraceEvent, scene: Scene): string {
  const { schedule } = scene.context;
  switch (event.kind) {
    case 'claim':
    case 'extended': {
      const votes = numberOf(event, 'votes');
      if (votes === 0) return '';
      const client = schedule.clients.find(({ id }) => id === event.process);
      const ttlMs = client?.locks[numberOf(event, 'lock')]?.ttlMs ?? 0;
      const drift = scene.allowanceUs(ttlMs) / MS;
      const counted =
        event.kind === 'claim'
          ? `T1 + TTL ${formatCount(ttlMs)} − drift allowance ${drift} = `
          : 'the new validity ends at ';
      return `${plural(votes, 'vote')} ≥ quorum ${numberOf(event, 'quorum')} of ${numberOf(event, 'nodes')}. By its own clock: ${counted}${ms(event, 'deadlineUs')} ms.`;
    }
    case 'reply':
      return 'One more answer: granted when the yes votes reach the quorum while some validity is left; given up as soon as they no longer can.';
    case 'no-script':
      return 'The process of the node is new and does not know the script by its hash: the client sends its text.';
    case 'execute':
      return executeRule(event, scene);
    case 'key-gone':
      return goneRule(event, scene);
    case 'expired':
      return 'A local timer fires when the clock of the client reaches the deadline.';
    case 'write-arrived':
    case 'write-refused':
      return `The resource looks at ${schedule.resource === undefined || schedule.resource === 'none' ? 'nothing' : schedule.resource}.`;
    case 'restart':
      return `Persistence ${schedule.cluster.persistence}: a restart brings back what was on disk.`;
    default:
      return '';
  }
}

function executeRule(event: TraceEvent, scene: Scene): string {
  const answer = scene.effectsOf(event.seq).find((it) => it.kind === 'send' || it.kind === 'lost');
  const said = answer === undefined ? 'no answer' : textOf(answer, 'answer');
  const held = heldAt(event, scene);
  const has = held === 0 ? 'The node has no key here' : `The node has the key of ${scene.tokenName(held)}`;
  return `${has}: ${commandOf(event, scene)} → ${said}.`;
}

/** Token of the key that a node had when it was asked; 0 for none. */
function heldAt(event: TraceEvent, { events, tokenName }: Scene): number {
  if (tokenName(numberOf(event, 'token')) === '?') return 0;
  let held = 0;
  for (const it of events) {
    if (it.seq >= event.seq) break;
    if (it.process !== event.process) continue;
    if (it.kind === 'key-set') held = numberOf(it, 'token');
    else if (it.kind === 'key-gone' && numberOf(it, 'token') === held) held = 0;
  }
  return held;
}

function goneRule(event: TraceEvent, { schedule }: Scene): string {
  switch (textOf(event, 'how')) {
    case 'expired':
      return `Gone once the clock of the node (${formatDurationMs(event.localUs)} ms) is ${schedule.cluster.expiry === 'after' ? 'past' : 'at'} its expiry, in whole milliseconds.`;
    case 'forgotten':
      return `Persistence ${schedule.cluster.persistence}: it was not on disk, or the node was told to forget it.`;
    default:
      return 'A command of a client removed or replaced it.';
  }
}
