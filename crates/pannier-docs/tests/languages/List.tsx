import { useState } from 'react';

interface ListProps {
  title: string;
  items: string[];
}

/** A list that can be filtered. */
export function List({ title, items }: ListProps) {
  const [filter, setFilter] = useState('');
  const shown = items.filter((item) => item.includes(filter));
  return (
    <section>
      <h2>{title}</h2>
      <input value={filter} onChange={(event) => setFilter(event.target.value)} />
      <ul>{shown.map((item) => <li key={item}>{item}</li>)}</ul>
    </section>
  );
}

export const Empty = () => <p>Nothing here.</p>;
