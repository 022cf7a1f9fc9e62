type Props = { name: string; size?: 'sm' | 'lg' }

const COLOURS = ['bg-rose-500', 'bg-indigo-500', 'bg-teal-600', 'bg-amber-600']

export default function Avatar({ name, size = 'sm' }: Props) {
  const initials = name.split(' ').map((part) => part[0]).join('').slice(0, 2)
  const colour = COLOURS[name.length % COLOURS.length]
  return (
    <span className={`inline-flex shrink-0 items-center justify-center rounded-full font-semibold text-white ${colour} ${size === 'lg' ? 'h-14 w-14 text-lg' : 'h-9 w-9 text-xs'}`}>
      {initials}
    </span>
  )
}
