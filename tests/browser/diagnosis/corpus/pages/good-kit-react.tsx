// expect: nothing. The same as good-kit.vue.
import Slide from '@kit/Slide'
import Bars from '@kit/Bars'
import Line from '@kit/Line'
import Callout from '@kit/Callout'
const rows = [{ label: 'North', value: 1240 }, { label: 'South coast', value: 890 }, { label: 'Overseas', value: -210 }]
const series = [{ label: 'Letters', values: [12, 18, 15, 24, 31, 28] }, { label: 'Parcels', values: [5, 9, null, 14, 22, 35] }]
export default function Page() {
  return (
    <Slide className="bg-white text-slate-900" kicker="Third quarter" title="More parcels than letters since August" footer="Fernpost" page="3">
      <div className="grid min-h-0 flex-1 grid-cols-2 gap-12">
        <Bars rows={rows} unit="t" className="self-start text-xl" />
        <Line series={series} labels={['Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep']} unit="k" />
      </div>
      <Callout tone="warning" title="June is missing">The counter in June was broken; <b>nothing</b> was lost.</Callout>
    </Slide>
  )
}
