import { install } from './install.js';

// Whoever imports this first has dispatchers from here on.
install();
