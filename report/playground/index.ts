export { addressOf, fragmentOf } from './address.js';
export { packed } from './pack.js';
export { playgroundPage } from './page.js';
