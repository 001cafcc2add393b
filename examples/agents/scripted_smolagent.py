"""An agent of smolagents whose code runs in a live kernel behind walls. Its model is a script, so that no model is needed.

    pip install 'cellhouse[smolagents]'
    python examples/agents/scripted_smolagent.py

The script makes the mistakes that models make: it prints too much, it ends the process that holds its variables, and it
answers all the same, since each time the agent was told what had happened.
"""

from smolagents import ChatMessage, CodeAgent, MessageRole, Model, tool

from cellhouse.runners import SessionCodeRunner
from cellhouse.runners.adapters.smolagents import CellhouseExecutor

STEPS = [
    "import pandas\ntable = pandas.DataFrame({'n': range(1_000_000)})\nprint(table.to_string())",
    "table.head(3).to_csv('head.csv')\ntotal = int(table['n'].sum())\ntotal",
    "import os\nprint('about to end the process')\nos._exit(1)",
    "print('total' in globals())\ntotal = in_words(sum(range(1_000_000)))\ntotal",
    "final_answer({'total': total})",
]


class Script(Model):
    """Stands where a language model would: shows what the agent was told, and says the next step."""

    def generate(self, messages, **options):
        told = messages[-1].content
        told = told if isinstance(told, str) else "".join(part.get("text", "") for part in told)
        if messages[-1].role != MessageRole.USER or "Observation" in told or "Error" in told:
            print("--- the agent reads:", told.strip()[:900], sep="\n")
        code = STEPS.pop(0)
        print("--- the agent runs:", code, sep="\n")
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{code}\n</code>")


@tool
def in_words(number: int) -> str:
    """Says a number in words, about.

    Args:
        number: the number
    """
    return f"about {round(number / 10**9)} thousand million"


def main() -> None:
    executor = CellhouseExecutor(SessionCodeRunner(), timeout=60, max_output_chars=1_000)
    with CodeAgent(tools=[in_words], model=Script(), executor=executor, verbosity_level=0) as agent:
        print("--- the answer:", agent.run("What do the numbers below a million add up to?"), sep="\n")


if __name__ == "__main__":
    main()
