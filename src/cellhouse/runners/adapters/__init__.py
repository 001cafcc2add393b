"""Runners as frameworks of agents take them: a module each, which needs the extra of the same name.

`adk` (Google ADK), `langchain`, `openai_agents` (OpenAI Agents SDK), `smolagents`.
"""
