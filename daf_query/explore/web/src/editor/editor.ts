// The SQL editor: CodeMirror in a shadow root, whose styles are adopted rather than inline,
// so that the page's policy can forbid inline styles.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { keywordCompletionSource, sql } from "@codemirror/lang-sql";
import { bracketMatching } from "@codemirror/language";
import { type Diagnostic, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers, placeholder } from "@codemirror/view";
import type { Catalogue, Problem } from "../contract";
import { h } from "../dom";
import { completionsOf } from "./completion";
import { dialect } from "./dialect";
import { theme } from "./theme";

export interface SqlEditor {
  readonly element: HTMLElement;
  text(): string;
  replace(sql: string): void;
  insert(text: string): void;
  underline(problem: Problem | null): void;
  focus(): void;
}

function place(text: Text, problem: Problem): { from: number; to: number } {
  const number = Math.min(Math.max(problem.line ?? 1, 1), text.lines);
  const line = text.line(number);
  if (problem.line === null || problem.column === null) return { from: 0, to: text.length };
  const from = Math.min(line.from + Math.max(problem.column - 1, 0), text.length);
  const length = problem.length ?? (/^\w+/.exec(text.sliceString(from, line.to))?.[0].length || 1);
  const to = Math.min(from + Math.max(length, 1), text.length);
  return from < to ? { from, to } : { from: Math.max(0, to - 1), to };
}

/** Make the editor; `run` is called by Ctrl-Enter (Cmd-Enter). */
export function makeEditor(catalogue: () => Catalogue | null, run: () => void): SqlEditor {
  const host = h("div", { class: "editor-host" });
  const root = host.attachShadow({ mode: "open" });
  const language = sql({ dialect, upperCaseKeywords: true });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      extensions: [
        keymap.of([{ key: "Mod-Enter", run: (of) => { closeCompletion(of); run(); return true; } }, { key: "Tab", run: acceptCompletion }]),
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(),
        highlightSpecialChars(), highlightSelectionMatches(), EditorView.lineWrapping,
        placeholder("SELECT ... FROM ...   Ctrl-Enter runs"),
        language,
        autocompletion({ override: [completionsOf(catalogue), keywordCompletionSource(dialect, true)], icons: false }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.contentAttributes.of({ "aria-label": "SQL query", spellcheck: "false" }),
        theme,
      ],
    }),
  });
  const showProblems = (problems: Diagnostic[]): void => view.dispatch(setDiagnostics(view.state, problems));
  return {
    element: host,
    text: () => view.state.doc.toString(),
    replace(text) {
      if (text === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: text.length } });
    },
    insert(text) {
      view.dispatch(view.state.replaceSelection(text), { scrollIntoView: true });
      view.focus();
    },
    underline(problem) {
      if (!problem || view.state.doc.length === 0) return showProblems([]);
      showProblems([{ ...place(view.state.doc, problem), severity: "error", message: problem.message }]);
    },
    focus: () => view.focus(),
  };
}
