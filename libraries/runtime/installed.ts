import { install } from './install.js';

// A module that imports this first has dispatchers from here on.
install();
