// The order of a list, as the API takes it: the name of a column, after - the other way round.

/** The order after a click on a column: by it, and after another click the other way round. */
export const turned = (sort: string, by: string) => (sort === by ? `-${by}` : by)

/** Which way a list is sorted by a column; undefined if it is sorted by another. */
export const direction = (sort: string, by: string): 'ascending' | 'descending' | undefined =>
  (sort === by ? 'ascending' : sort === `-${by}` ? 'descending' : undefined)
