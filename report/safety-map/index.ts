export { mostColumns, safetyMapLines } from './map.js';
export { type Here, MAP_CSS } from './map-picture.js';
export { mapSection } from './map-section.js';
export { type EdgeCommand, safetyMapPage } from './page.js';
export { phrase, safetyMapSentence, settingWords, theorySentence } from './phrases.js';
