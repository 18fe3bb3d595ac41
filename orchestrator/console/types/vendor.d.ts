// The libraries of the page, as far as the types of its own files need them.
declare const all: any;
export default all;
export const createContext: any, h: any, render: any;
export const useCallback: any, useContext: any, useEffect: any, useLayoutEffect: any, useMemo: any, useRef: any, useState: any;
