// What a person types into a filter: it acts a moment after the last key.
import { useEffect, useRef, useState } from 'preact/hooks'

const pause = 250

/** The text of a field for a filter that is elsewhere, such as in the address. act is called with what
 * was typed once nothing is typed for a moment. When the filter changes by other means, such as a link
 * to the view without it, the field shows that. */
export function useTyped(filter: string, act: (text: string) => void): [string, (text: string) => void] {
  const [text, type] = useState(filter)
  const acted = useRef(filter) // the last one that this field or another made it
  useEffect(() => {
    if (filter === acted.current) return
    acted.current = filter
    type(filter)
  }, [filter])
  useEffect(() => {
    if (text === acted.current) return
    const timer = setTimeout(() => { acted.current = text; act(text) }, pause)
    return () => clearTimeout(timer)
  }, [text])
  return [text, type]
}
