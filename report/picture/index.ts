export { layout, staticPicture } from './layout.js';
export { type Lane, type Mark, type Picture, type Role, STATIC_VIEW, type View } from './marks.js';
export { type Scene, sceneOf } from './scene.js';
export { svgFile } from './svg.js';
