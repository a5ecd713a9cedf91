import { Streams } from '../../sim/index.js';
import { hashOf } from './hash-of.js';

console.log(hashOf(new Streams('golden'), 50));
