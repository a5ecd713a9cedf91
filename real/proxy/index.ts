export { type CommandFate, NodeProxy } from './proxy.js';
export { commandOf, RespCutter } from './resp.js';
