// Checks of the explorer's scripts, run from the top of the repository: make lint-js.
import js from "@eslint/js";
import globals from "globals";

const SCRIPTS = "src/effective_attention/explorer/static";

// The browser's globals that the page uses. The others are forbidden, and no variable may have the name of any.
const USED = [
  "addEventListener", "Blob", "clearTimeout", "DecompressionStream", "devicePixelRatio", "document", "Element",
  "history", "innerHeight", "location", "matchMedia", "navigator", "performance", "requestAnimationFrame",
  "ResizeObserver", "Response", "setTimeout", "URL", "URLSearchParams", "window",
];

const UNUSED = Object.keys(globals.browser).filter((name) => !USED.includes(name));

const SYNTAX = [
  { selector: "Program > * > AwaitExpression", message: "modules.py puts each module into a function" },
  { selector: "TemplateElement[value.raw=/\n/]", message: "modules.py wants strings to end on their line" },
];

const layer = (files, ...above) => ({
  files: [`${SCRIPTS}/${files}`],
  rules: { "no-restricted-imports": ["error", { patterns: above.map((folder) => `**/${folder}/**`) }] },
});

export default [
  js.configs.recommended,
  {
    files: [`${SCRIPTS}/**/*.js`],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: {
      ecmaVersion: 2025,
      sourceType: "module",
      globals: Object.fromEntries([...USED, ...UNUSED].map((name) => [name, "readonly"])),
    },
    rules: {
      "eqeqeq": "error",
      "max-depth": ["error", 4],
      "max-len": ["error", 120],
      "max-lines": ["error", 250],
      "max-lines-per-function": ["error", 40],
      "max-params": ["error", 7],
      "no-duplicate-imports": "error",
      "no-implicit-globals": "error",
      "no-multi-str": "error",
      "no-restricted-globals": ["error", ...UNUSED],
      "no-restricted-syntax": ["error", ...SYNTAX],
      "no-shadow": ["error", { builtinGlobals: true, hoist: "all" }],
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  layer("core/*.js", "views", "controls"),
  layer("views/*.js", "controls"),
];
