export { frontierMap, mostColumns } from './map.js';
export { AXIS_WORDS, frontierSentence, phrase, settingWords, theorySentence, valueWords } from './phrases.js';
