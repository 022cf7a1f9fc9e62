// expect: KIT_PROP_INVALID 6
import Callout from '@kit/Callout'

export default function Page() { return <main className="p-12 text-2xl">
  <Callout title="Fine">Two parcels came.</Callout>
  <Callout type="error" title="Late">One did not.</Callout>
</main> }
