// expect: nothing. The rest of the kit, on a dark ground.
import Slide from '@kit/Slide'
import Code from '@kit/Code'
import Icon from '@kit/Icon'
import Table from '@kit/Table'
import Stat from '@kit/Stat'
const code = `// doubles what is even
export function twice(list: number[]) {
  const even = list.filter((n) => n % 2 === 0)
  return even.map((n) => n * 2) // "fast"
}`
const names = ['arrow-down','arrow-left','arrow-right','arrow-up','bell','bolt','book','calendar','chart-bar','chart-line','check','check-circle','chevron','clock','cloud','code','cross','cross-circle','download','eye','file','flag','folder','globe','heart','home','image','info','key','layers','link','list','lock','mail','map','minus','pause','phone','pin','play','plus','question','search','settings','shield','star','target','trend-down','trend-up','upload','user','users','warning']
export default function Page() {
  return (
    <Slide className="bg-slate-900 text-slate-100" title="Everything else" style={{ gap: 20 }}>
      <div className="flex gap-16"><Stat value="1240" unit="t" label="Mail carried" change="+12 %" /><Stat value={38} unit="%" label="On time" change="-4 points" /><Stat value="3 h" label="Median delay" change="as before" /></div>
      <div className="grid grid-cols-2 gap-8">
        <Code code={code} title="twice.ts" highlight={[3]} numbers />
        <Table columns={['Region', { key: 'sold', label: 'Sold' }]} rows={[{ Region: 'North', sold: 1200.5 }, { Region: 'South', sold: 88 }]} caption="Thousands" />
      </div>
      <div className="flex flex-wrap gap-3 text-3xl">{names.map((n) => <Icon key={n} name={n} />)}</div>
    </Slide>
  )
}
