// Draws small seats straight into pixels: sixty thousand dots in a few milliseconds, where a canvas's own calls would
// take a frame or more. Each dot is a picture with soft edges, made once for each colour and for sixteen places within
// a pixel.

/** Places within a pixel, in each direction. */
const PLACES = 4;

/** @param {string} colour #rrggbb @returns {[number, number, number]} */
function parts(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** How much of a pixel a round dot covers, by samples. */
function coverage(x, y, radius, round) {
  let inside = 0;
  for (let sy = 0; sy < 4; sy += 1) {
    for (let sx = 0; sx < 4; sx += 1) {
      const dx = Math.abs(x + (sx + 0.5) / 4), dy = Math.abs(y + (sy + 0.5) / 4);
      const cx = Math.max(0, dx - (radius - round)), cy = Math.max(0, dy - (radius - round));
      if (dx <= radius && dy <= radius && cx * cx + cy * cy <= round * round) inside += 1;
    }
  }
  return inside / 16;
}

/** The pictures of dots of one size. */
export class Dots {
  /** @param {number} radius in pixels @param {(string | null)[]} colours by index */
  constructor(radius, colours) {
    this.radius = radius;
    this.width = Math.ceil(radius * 2) + 1;
    const round = radius < 2 ? radius * 0.6 : radius * 0.5;
    const masks = [];
    for (let py = 0; py < PLACES; py += 1) {
      for (let px = 0; px < PLACES; px += 1) {
        const mask = new Float32Array(this.width * this.width);
        for (let y = 0; y < this.width; y += 1) {
          for (let x = 0; x < this.width; x += 1) mask[y * this.width + x] = coverage(x - px / PLACES - radius,
            y - py / PLACES - radius, radius, round);
        }
        masks.push(mask);
      }
    }
    this.pictures = colours.map((colour) => {
      if (!colour) return null;
      const [red, green, blue] = parts(colour);
      const solid = (blue << 16) | (green << 8) | red;
      return masks.map((mask) => Uint32Array.from(mask, (part) => (part
        ? ((Math.round(part * 255) << 24) | solid) >>> 0 : 0)));
    });
  }
}

/** The pixels of the canvas. */
export class Raster {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
    this.image = context.createImageData(1, 1);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  resize(width, height) {
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /**
   * Draws all seats.
   * @param {{x: Float32Array, y: Float32Array}} layout
   * @param {Uint8Array} look the colour's index of each position; 255 for nothing
   * @param {Dots} dots @param {number} scale pixels per unit @param {number} left @param {number} top of the view, in
   *   units
   */
  draw(layout, look, dots, scale, left, top) {
    const { pixels, image } = this, { width: columns, height: lines } = image;
    const { width, radius, pictures } = dots, { x: xs, y: ys } = layout;
    pixels.fill(0);
    for (let at = 0; at < look.length; at += 1) {
      const colour = look[at];
      if (colour === 255) continue;
      const x = (xs[at] - left) * scale - radius, y = (ys[at] - top) * scale - radius;
      if (x < 0 || y < 0 || x >= columns - width || y >= lines - width) continue;
      const px = x | 0, py = y | 0;
      const picture = pictures[colour]?.[(((y - py) * PLACES) | 0) * PLACES + (((x - px) * PLACES) | 0)];
      if (!picture) continue;
      let from = 0, to = py * columns + px;
      for (let line = 0; line < width; line += 1) {
        for (let column = 0; column < width; column += 1) {
          const value = picture[from + column];
          // Where two dots touch, the denser one wins.
          if (value > pixels[to + column]) pixels[to + column] = value;
        }
        from += width;
        to += columns;
      }
    }
    this.context.putImageData(image, 0, 0);
  }
}
