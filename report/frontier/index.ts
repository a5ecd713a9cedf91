export { frontierMap, mostColumns } from './map.js';
export { type Here, MAP_CSS } from './map-picture.js';
export { mapSection } from './map-section.js';
export { type EdgeCommand, frontierPage } from './page.js';
export { frontierSentence, phrase, settingWords, theorySentence } from './phrases.js';
