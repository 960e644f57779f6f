// Points on WebGL 2. The coordinates go to the graphics card as they came; a colour is a code of two bytes.
import type { Colouring } from "./colours";
import type { Camera, View } from "./camera";

const VERTEX = `#version 300 es
precision highp float;
precision highp int;
layout(location = 0) in vec2 place;
layout(location = 1) in uint mark; // the code of the colour, and above it whether the point is lit
uniform vec2 centre;
uniform vec2 scale;
uniform float size;
uniform float alpha;
uniform int lit;      // 0: nothing is lit; 1: draw what is not lit; 2: draw what is lit
uniform bool byCode;  // high values on top
uniform vec3 ground;
uniform sampler2D palette;
uniform sampler2D shown;
out vec4 colour;
void main() {
  bool isLit = mark >= 65536u;
  uint code = mark & 65535u;
  bool hidden = isnan(place.x) || isnan(place.y) || (lit == 1 && isLit) || (lit == 2 && !isLit);
  ivec2 cell = ivec2(int(code) % 256, int(code) / 256);
  bool dim = lit == 1 || texelFetch(shown, cell, 0).r == 0.0;
  vec3 tone = texelFetch(palette, cell, 0).rgb;
  colour = vec4(dim ? mix(ground, tone, 0.16) : tone, dim ? min(alpha, 0.6) : alpha);
  float depth = dim ? 0.9 : byCode ? 0.8 - 1.6 * float(code) / 255.0 : 0.0;
  gl_Position = hidden ? vec4(3.0, 3.0, 3.0, 1.0) : vec4((place - centre) * scale, clamp(depth, -0.9, 0.9), 1.0);
  gl_PointSize = hidden ? 0.0 : (lit == 2 ? size + 1.0 : size);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec4 colour;
uniform float size;
uniform bool byCode;
out vec4 pixel;
void main() {
  float edge = 1.0;
  if (size > 2.5) {
    float far = length(gl_PointCoord - 0.5) * size; // pixels from the centre
    edge = byCode ? step(far, 0.5 * size - 0.5) : clamp(0.5 * size - far, 0.0, 1.0); // depth and soft edges make halos
    if (edge == 0.0) discard;
  }
  pixel = vec4(colour.rgb, colour.a * edge);
}`;

const UNIFORMS = ["centre", "scale", "size", "alpha", "lit", "byCode", "ground", "palette", "shown"] as const;
const MOST_STRIDE = 16; // the stride of an attribute ends at 255 bytes
const LIT = 65536;

export interface Frame {
  readonly camera: Camera;
  readonly view: View;
  readonly ratio: number; // pixels of the device for each of the page
  readonly zoomed: number; // how much nearer than when all is in view
  readonly ground: readonly [number, number, number];
  readonly everyNth: number;
}

function compile(gl: WebGL2RenderingContext, type: number, source: string): WebGLShader {
  const shader = gl.createShader(type);
  if (!shader) throw new Error("the graphics context is lost");
  gl.shaderSource(shader, source);
  gl.compileShader(shader);
  if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader) ?? "a shader does not compile");
  return shader;
}

/** Draws points; knows neither the mouse nor the server. */
export class Renderer {
  private readonly gl: WebGL2RenderingContext;
  private uniforms!: Record<(typeof UNIFORMS)[number], WebGLUniformLocation | null>;
  private buffers!: { places: WebGLBuffer; marks: WebGLBuffer };
  private marks = new Uint32Array(0);
  private textures!: { palette: WebGLTexture; shown: WebGLTexture };
  private count = 0;
  private anyLit = false;
  private byCode = false;

  constructor(canvas: HTMLCanvasElement) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, preserveDrawingBuffer: false, depth: true, powerPreference: "high-performance" });
    if (!gl) throw new Error("this browser has no WebGL 2");
    this.gl = gl;
    this.prepare();
  }

  /** Make program and buffers: at first, and after a lost context. */
  prepare(): void {
    const gl = this.gl;
    const program = gl.createProgram();
    gl.attachShader(program, compile(gl, gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, compile(gl, gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) ?? "the shaders do not link");
    gl.useProgram(program);
    this.uniforms = Object.fromEntries(UNIFORMS.map((name) => [name, gl.getUniformLocation(program, name)])) as typeof this.uniforms;
    this.buffers = { places: gl.createBuffer(), marks: gl.createBuffer() };
    this.textures = { palette: this.texture(0), shown: this.texture(1) };
    gl.uniform1i(this.uniforms.palette, 0);
    gl.uniform1i(this.uniforms.shown, 1);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
  }

  private texture(unit: number): WebGLTexture {
    const gl = this.gl;
    const texture = gl.createTexture();
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
    for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, name, gl.CLAMP_TO_EDGE);
    return texture;
  }

  private upload(buffer: WebGLBuffer, values: AllowSharedBufferSource): void {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, buffer);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.STATIC_DRAW);
  }

  setPoints(points: Float32Array<ArrayBuffer>): void {
    this.count = points.length / 2;
    this.marks = new Uint32Array(this.count);
    this.anyLit = false;
    this.upload(this.buffers.places, points);
  }

  setColours(colouring: Colouring): void {
    const gl = this.gl;
    const { marks } = this;
    for (let position = 0; position < marks.length; position += 1) {
      marks[position] = (marks[position]! & LIT) | colouring.codes[position]!;
    }
    this.upload(this.buffers.marks, marks);
    this.byCode = colouring.range !== null;
    const rows = Math.max(1, Math.ceil(colouring.palette.length / 4 / 256));
    const cells = new Uint8Array(rows * 256 * 4);
    cells.set(colouring.palette);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.textures.palette);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, cells);
    this.showCodes(null, rows);
  }

  /** Dim all points but those of these codes; null shows all. */
  showCodes(codes: ReadonlySet<number> | null, rows = 17): void {
    const gl = this.gl;
    const cells = new Uint8Array(rows * 256).fill(codes ? 0 : 255);
    for (const code of codes ?? []) cells[code] = 255;
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.textures.shown);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R8, 256, rows, 0, gl.RED, gl.UNSIGNED_BYTE, cells);
  }

  /** Light the points at these positions; null lights none and dims none. */
  light(positions: Uint32Array | null): void {
    const { marks } = this;
    for (let position = 0; position < marks.length; position += 1) marks[position]! &= ~LIT;
    for (const position of positions ?? []) marks[position]! |= LIT;
    this.anyLit = positions !== null;
    this.upload(this.buffers.marks, marks);
  }

  /** The diameter of a point, in pixels of the page. */
  pointSize(frame: Frame): number {
    const room = Math.sqrt((0.16 * frame.view.width * frame.view.height) / Math.max(this.count, 1));
    return Math.min(Math.max(room, 1) * Math.sqrt(Math.max(frame.zoomed, 0.5)), 14);
  }

  draw(frame: Frame): void {
    const gl = this.gl;
    const { camera, view, ratio } = frame;
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight);
    gl.clearColor(frame.ground[0], frame.ground[1], frame.ground[2], 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (!this.count) return;
    const step = Math.min(2 ** Math.round(Math.log2(Math.max(frame.everyNth, 1))), MOST_STRIDE);
    this.attribute(0, this.buffers.places, () => gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 8 * step, 0));
    this.attribute(1, this.buffers.marks, () => gl.vertexAttribIPointer(1, 1, gl.UNSIGNED_INT, 4 * step, 0));
    gl.uniform2f(this.uniforms.centre, camera.x, camera.y);
    gl.uniform2f(this.uniforms.scale, 2 / (view.width * camera.unitsPerPixel), 2 / (view.height * camera.unitsPerPixel));
    gl.uniform1f(this.uniforms.size, this.pointSize(frame) * ratio * Math.min(step ** 0.25, 1.7));
    gl.uniform1f(this.uniforms.alpha, this.byCode || this.count < 20_000 ? 0.92 : this.count < 300_000 ? 0.75 : 0.5);
    gl.uniform1i(this.uniforms.byCode, this.byCode ? 1 : 0);
    gl.uniform3f(this.uniforms.ground, ...frame.ground);
    if (this.byCode) gl.enable(gl.DEPTH_TEST);
    else gl.disable(gl.DEPTH_TEST);
    const shown = Math.floor(this.count / step);
    for (const lit of this.anyLit ? [1, 2] : [0]) {
      gl.uniform1i(this.uniforms.lit, lit);
      gl.drawArrays(gl.POINTS, 0, shown);
    }
  }

  private attribute(place: number, buffer: WebGLBuffer, point: () => void): void {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, buffer);
    this.gl.enableVertexAttribArray(place);
    point();
  }

  /** Wait until the picture is there; one pixel is read back. */
  finish(): void {
    this.gl.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, new Uint8Array(4));
  }
}
