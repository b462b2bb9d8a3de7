"""The display of ``--diff``: each step with all that it changes, then the outputs that came of it."""

from __future__ import annotations

from typing import IO

from tidepool.engine.display import markup, step_text, words
from tidepool.engine.display.sections import configuration, summary
from tidepool.engine.display.settings import Settings
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Op,
    Prelude,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    StepMetadata,
    Summary,
)


class DiffDisplay:
    """Writes steps to ``stdout`` and messages to ``stderr``, as the Pulumi CLI does."""

    def __init__(self, stdout: IO[str], stderr: IO[str], settings: Settings) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._settings = settings
        self._seen: dict[str, StepMetadata] = {}
        self._errored = 0
        self._begun = False

    def event(self, event: Event) -> None:
        """Show ``event``."""
        self._begin()
        match event:
            case Prelude():
                if self._settings.show_config:
                    self._write(configuration(event))
            case Stdout():
                self._write(event.message)
            case Diagnostic():
                if event.severity != "debug" or self._settings.debug:
                    self._complain(f"{markup.prefix(event.severity)}{event.message}\n")
            case Summary():
                self._write(summary(event, self._errored))
            case ResourceFailed():
                self._errored += 1
            case ResourcePre():
                self._write(self._step(event))
            case ResourceOutputs():
                self._write(self._outputs(event))
            case _:
                pass

    def cancelling(self) -> None:
        """Tell that the person's wish to end was heard."""
        self._complain("^C received; cancelling. Interrupt again to end at once\n")

    def close(self) -> None:
        """Write out what was written."""
        self._begin()
        self._stdout.flush()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._write(f"{markup.HEADLINE}{self._settings.label} ({self._settings.stack}):{markup.RESET}\n")

    def _shown(self, step: StepMetadata) -> bool:
        if words.is_internal(step):
            return False
        return words.is_root(step.urn) or step_text.is_shown(
            step, self._settings, steps_of_replacements=False
        )

    def _depth(self, step: StepMetadata) -> int:
        return step_text.depth(step, self._seen, self._shown)

    def _step(self, event: ResourcePre) -> str:
        step = event.metadata
        if words.is_internal(step):
            return ""
        self._seen[step.urn] = step
        if step.op in (Op.REFRESH, Op.IMPORT) or not self._shown(step):
            return ""  # what was found is told when it is found
        return step_text.difference_of(step, self._depth(step), self._settings, event.planning, refresh=False)

    def _outputs(self, event: ResourceOutputs) -> str:
        step, settings = event.metadata, self._settings
        if not self._shown(step):
            return ""
        before = self._seen.get(step.urn)
        refresh = before is not None and before.op is Op.REFRESH
        indent = self._depth(step)
        if step.op is Op.IMPORT or (refresh and step.op is Op.UPDATE):
            return step_text.difference_of(step, indent, settings, event.planning, refresh)
        outputs = step_text.outputs_of(step, indent + 1, settings, event.planning, refresh)
        text = ""
        if refresh and (step.op is not Op.REFRESH or outputs or words.is_root(step.urn)):
            text = step_text.header(step, indent, settings)
        if outputs and not settings.suppress_outputs:
            blanks = "    " * (indent + 1)
            text += f"{markup.of_op(step.op)}{blanks}--outputs:--{markup.RESET}\n{outputs}"
        return text

    def _write(self, text: str) -> None:
        if text:
            self._stdout.write(markup.render(text, self._settings.color))
            self._stdout.flush()

    def _complain(self, text: str) -> None:
        self._stderr.write(markup.render(text, self._settings.color))
        self._stderr.flush()
