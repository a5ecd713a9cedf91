export { type CommandFate, NodeProxy } from './proxy.js';
export { RespCutter } from './resp.js';
