export { type CommandFate, type Dropped, type MessageFate, NodeProxy, type ProxyOptions } from './proxy.js';
export { commandOf, RespCutter, wordsOf } from './resp.js';
