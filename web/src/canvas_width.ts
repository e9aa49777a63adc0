import type {RefObject} from "preact";
import {useEffect, useState} from "preact/hooks";

// The width of a canvas in CSS pixels, as it changes; 0: not laid out yet.
export function useCanvasWidth(canvas: RefObject<HTMLCanvasElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = canvas.current!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return width;
}
