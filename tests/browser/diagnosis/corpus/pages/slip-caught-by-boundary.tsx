// expect: COMPONENT_FAILED 4
import { Component, type ReactNode } from 'react'
class Guard extends Component<{ children: ReactNode }, { bad: boolean }> { state = { bad: false }; static getDerivedStateFromError() { return { bad: true } } render() { return this.state.bad ? <p>Sample shown</p> : this.props.children } }
function Bad(): ReactNode { throw new Error('inner') }
export default function Page() {
  return <main className="h-[720px] bg-white p-16"><h1 className="text-3xl">Safe</h1><Guard><Bad /></Guard></main>
}
