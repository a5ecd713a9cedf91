export { pageAssets } from './assets.js';
export { frontierMap, mostColumns } from './map.js';
export { type EdgeCommand, frontierPage } from './page.js';
export { AXIS_WORDS, frontierSentence, phrase, settingWords, theorySentence, valueWords } from './phrases.js';
