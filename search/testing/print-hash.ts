import { RandomStreams } from '../../sim/index.js';
import { hashOf } from './hash-of.js';

console.log(hashOf(new RandomStreams('golden'), 50));
