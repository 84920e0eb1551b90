// What the explorer's scripts pass around: types for their comments, checked by tsc and never shipped.

type View = "heads" | "model" | "heatmap" | "neuron" | "rollout";
type Attention = "standard" | "effective" | "null" | "affine" | "sparse" | "smallest" | "difference";
type Whole = Int16Array | Int32Array; // weights are whole numbers of 10^-decimals
type Rgb = [number, number, number];

// --- what page.py writes ---

type Prediction =
  | { kind: "score"; score: number }
  | { kind: "class"; probabilities: [string, number][] };

interface Words { tokens: string[]; starts: number[] } // starts: the place of each word's first piece
interface Tokens { tokens: string[]; special: boolean[]; size: number; words: Words | null } // null: of one piece each
interface Joined { side: Side; queries: number[][]; keys: number[][] } // the side as stored; places of each word's pieces

interface Side extends Tokens {
  name: string;
  model: string;
  checkpoint: string;
  texts: string[];
  segments: number[];
  keys: Tokens | null; // null: those that look
  stack: string | null; // which attention of the model, where it has three
  layers: number;
  heads: number;
  d_key: number;
  scaling: (number | null)[] | null;
  causal: boolean;
  prediction: Prediction | null;
  gold: string | number | null; // what the data says
  right: boolean | null; // whether the model says so, too; null: a score, or one of the two is missing
  joined?: Joined; // made here, of words
  ranks: number[][] | null;
  convention: "absolute" | "positive";
  residual: number;
  blocks: Blocks;
}

type BlockNames = (string | null)[]; // of weights: null where they are those of standard attention
interface Blocks {
  standard: string[];
  effective: BlockNames;
  affine?: BlockNames;
  sparse?: BlockNames;
  smallest?: BlockNames;
  query: BlockNames;
  key: BlockNames;
}

interface Header {
  version: number;
  title: string;
  made_by: string;
  alphabet: string;
  decimals: number;
  neuron_decimals: number;
  attentions: Attention[];
  signed: Attention[]; // those whose weights may be below 0
  stacks: string[]; // encoder, decoder, cross; or none
  same_tokens: boolean;
  sides: Side[];
}

// --- what is shown ---

interface State {
  stack: string | null;
  view: View;
  part: Attention;
  compare: boolean;
  layer: number;
  head: number;
  heads: number[] | null; // null: all
  query: number | null;
  key: number | null;
  between: string; // which of a pair's sentences look at which
  words: boolean; // pieces of a word joined
  threshold: number;
  special: boolean;
  root: boolean; // colours by the square root
  zoom: number;
  theme: string;
}

interface Point { x: number; y: number }
interface Room { width: number; height: number }
interface Viewport extends Point, Room {} // the part of a scene that can be seen
interface Box extends Viewport { left: number; above: number } // left, above: what of it is under names that stay in place
interface HeadPlace { layer: number; head: number }
interface Cross { row: number | null; column: number | null }

// What is at a place of a scene, as tokens, and as row and column of the scene.
interface Target {
  query: number | null;
  key: number | null;
  layer?: number | null;
  head?: number;
  row?: number | null;
  column?: number | null;
  choose?: "query";
}
interface Pointed extends Target { pane: number }

interface Scene extends Room {
  draw(painter: Painter, visible: Viewport, theme: Theme): void;
  hit(x: number, y: number, visible: Viewport): Target | null; // x, y: of the canvas
  move(right: number, down: number): Target;
  box(where: Target): Box;
  lens?(where: Target, theme: Theme): HTMLCanvasElement | null;
}
type SceneMaker = (pane: number, room: Room, pointed: Target | null) => Scene;

interface Pane {
  number: number; // a side's, or -1: first − second
  title: string;
  root: HTMLElement;
  scroller: HTMLElement;
  sizer: HTMLElement;
  canvas: HTMLCanvasElement;
  message: HTMLElement;
  scene: Scene | null; // null: cannot be drawn now
}

// --- drawing ---

interface Theme {
  ground: string;
  ink: string;
  soft: string;
  faint: string;
  accent: string;
  band: string;
  mark: string;
  positive: string[];
  negative: string[];
}

interface Look { size: number; colour: string; align?: "left" | "center" | "right"; bold?: boolean; turned?: boolean }

interface Painter {
  makesShapes: boolean; // whether single shapes are wanted rather than bitmaps
  rect(x: number, y: number, width: number, height: number, fill: string, opacity?: number): void;
  frame(x: number, y: number, width: number, height: number, colour: string, thickness?: number): void;
  // from column to column: a flat list of x1, y1, x2, y2; all of one look, in one stroke
  curves(ends: number[], colour: string, thickness: number, opacity: number, dashed?: boolean): void;
  text(text: string, x: number, y: number, look: Look): void;
  picture(canvas: HTMLCanvasElement, x: number, y: number, width: number, height: number): void;
  clipped(x: number, y: number, width: number, height: number, draw: () => void): void;
  moved(x: number, y: number, draw: () => void): void;
}

interface GridSpec {
  rows: string[];
  columns: string[];
  numbers: Whole; // row by row
  key: string; // tells these numbers from all others
  cell: Room;
  limit: number; // the weight of full colour
  least: number; // smaller weights are left out
  pointed: Cross;
  pinned: Cross;
  target: (row: number | null, column: number | null) => Target;
  caption: string;
  spare: { left: number; above: number }; // most room for names
}
interface Grid extends GridSpec { size: number; left: number; above: number }
interface Along { start: number; step: number; from: number; to: number; held: number[]; size: number }

interface Bundle { head: number; shade: number; negative: boolean; pairs: number[] } // pairs: row, column, row, …
interface HeadWeight { head: number; from: number; to: number; value: number }
interface Legend { signed: boolean; limit: number; note: string }

interface Axis { places: number[]; names: string[] } // the tokens that are shown along one edge

interface NeuronFacts { scores: number[]; vectorLimit: number; productLimit: number }
interface NeuronColumns {
  key: number | null;
  product: number;
  score: number;
  weight: number;
  name: number;
  strip: number; // a strip's width
  number: number; // a bar's width
}
interface NeuronTable {
  pane: number;
  queries: Axis;
  keys: Axis;
  query: number;
  key: number;
  label: number; // a name's width
  width: number;
  facts: NeuronFacts;
  columns: NeuronColumns;
  step: number; // from row to row
  above: number;
  limit: number;
}

// --- words ---

interface Focus {
  pane: number;
  side: Side;
  tokenName: (which: "query" | "key", place: number) => string;
  part: string;
  target: Pointed;
  suffix: string;
}
interface DescribedRow { colour?: string; label: string; number: string }
interface Description {
  title: string;
  text: string;
  rows: DescribedRow[]; // lines of the tip
  value?: string;
  query?: number | null;
  key?: number | null;
  layer?: number | null;
  head?: number;
}

interface Window {
  explorer: {
    readonly state: State;
    set(changes: Record<string, any>): void;
    value(side: number, part: Attention, layer: number, head: number, query: number, key: number): Promise<string>;
    settled(): Promise<void>;
    ready: Promise<void>;
  };
}
