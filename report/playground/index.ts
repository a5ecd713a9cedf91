export { addressOf, fragmentOf } from './address.js';
export { fragmentAt, playgroundLink } from './link.js';
export { packed } from './pack.js';
export { playgroundPage } from './page.js';
