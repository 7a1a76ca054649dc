// What docs/_static/editor.js takes of CodeMirror; tools/editor_bundle.py makes one file of it.
export { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { localCompletionSource, pythonLanguage } from "@codemirror/lang-python";
export { bracketMatching, indentUnit, syntaxHighlighting, syntaxTree } from "@codemirror/language";
export { search, searchKeymap } from "@codemirror/search";
export { EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
export { Decoration, EditorView, GutterMarker, ViewPlugin, WidgetType, gutter, keymap, lineNumbers } from "@codemirror/view";
export { classHighlighter } from "@lezer/highlight";
