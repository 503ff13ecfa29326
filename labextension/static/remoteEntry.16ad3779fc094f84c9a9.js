// The editor's part of pipemagic in JupyterLab 4 and Notebook 7: SQL colours in %%sql, %%check and %%exercise cells and
// on %sql lines, comments that leave the magic line alone. Written by hand as a module of the federation protocol, so
// that nothing has to be built: CodeMirror and the registries are those that the application shares.
(function () {
  'use strict';
  const NAME = 'pipemagic-sql';
  const MAGIC = /^\s*%%(sql|check|exercise)(?!\S)/;
  // %sql, %check and %pipedb at the beginning of a line or after "name =", as IPython has it.
  const LINE_MAGIC = /^\s*(?:[^\s%#=][^%#=]*=\s*)?(%(sql|check|pipedb))(?!\S)/;
  const WORD = /\s*((?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^\s"'])+)/y; // as pipemagic/notebook/arguments.py splits a line
  // The options of %sql that take the next word, as in pipemagic/notebook/sql_options.py; after a change, run
  // .ci/update_labextension.py.
  const TAKES_VALUE = new Set([
    '--on', '--timeout', '--params', '--with', '--save', '--file', '--out', '-o', '--limit', '--type', '--to-csv',
    '--encoding', '--to-parquet'
  ]);
  let shared; // shared[package][version].get() gives a factory of the package

  async function use(name) {
    const versions = shared[name] || {};
    const numbers = Object.keys(versions);
    if (!numbers.length) {
      throw new Error(`${NAME}: the application does not share ${name}`);
    }
    const number = numbers.find(key => versions[key].loaded) || numbers[numbers.length - 1];
    return (await versions[number].get())();
  }

  // The line of the magic is the first one that is not blank, as IPython has it.
  function magicLine(doc) {
    for (let number = 1; number <= doc.lines; number++) {
      const line = doc.line(number);
      if (line.text.trim()) {
        return MAGIC.test(line.text) ? line : null;
      }
    }
    return null;
  }

  // The words of a magic's line from an offset on, each with its place.
  function* words(text, start) {
    WORD.lastIndex = start;
    for (let match = WORD.exec(text); match; match = WORD.exec(text)) {
      yield { text: match[1], from: WORD.lastIndex - match[1].length, to: WORD.lastIndex };
    }
  }

  // The parts of a magic's line: ["option" | "string", from, to], and where its SQL begins.
  function partsOf(text, start, magic) {
    const parts = [];
    let isValue = false;
    for (const word of words(text, start)) {
      const isOption = /^--?[A-Za-z]/.test(word.text);
      if (magic === 'sql' && !isOption && !isValue) {
        return { parts, sql: word.from };
      }
      if (isOption && !isValue) {
        const flag = word.text.split('=', 1)[0];
        parts.push(['option', word.from, word.from + flag.length]);
        isValue = flag === word.text && TAKES_VALUE.has(flag) && magic === 'sql';
      } else {
        isValue = false;
        if (/^["']/.test(word.text)) {
          parts.push(['string', word.from, word.to]);
        }
      }
    }
    return { parts, sql: text.length };
  }

  // Whether a place is behind the name of a magic on its line.
  function isOnMagicLine(text, at) {
    const line = text.slice(text.lastIndexOf('\n', at - 1) + 1, at);
    const isFirst = !text.slice(0, at - line.length).trim();
    const match = (isFirst && MAGIC.exec(line)) || LINE_MAGIC.exec(line);
    return Boolean(match) && match[0].length < line.length;
  }

  // Tab's list has what the kernel offers, and the words of the cell, which on the line of a magic are its name and signs.
  function leaveOutWords(completers) {
    const words = completers.getProviders().get('CompletionProvider:context');
    if (words) {
      const fetch = words.fetch.bind(words);
      words.fetch = (request, ...context) =>
        isOnMagicLine(request.text, request.offset)
          ? Promise.resolve({ start: request.offset, end: request.offset, items: [] })
          : fetch(request, ...context);
    }
  }

  async function makePlugin() {
    const codemirror = await use('@jupyterlab/codemirror');
    const { ICompletionProviderManager } = await use('@jupyterlab/completer');
    const { ySyncAnnotation } = codemirror;
    const { Compartment, EditorSelection, EditorState, Prec, Transaction } = await use('@codemirror/state');
    const { Decoration, EditorView, ViewPlugin } = await use('@codemirror/view');
    const { highlightingFor, syntaxTree } = await use('@codemirror/language');
    const { highlightTree, tags } = await use('@lezer/highlight');
    const { toggleBlockComment, toggleComment } = await use('@codemirror/commands');
    const TAG = { magic: tags.meta, option: tags.attributeName, string: tags.string };

    // The marks of a magic's line: each part has the class of its tag, and the text between them is plain.
    function* marksOf(state, sql, line, [start, end], magic) {
      const { parts, sql: begin } = partsOf(line.text, end, magic);
      const found = [['magic', start, end], ...parts].map(([kind, from, to]) => [
        highlightingFor(state, [TAG[kind]]),
        from,
        to
      ]);
      const tree = sql.parser.parse(line.text.slice(begin));
      highlightTree(tree, { style: all => highlightingFor(state, all) }, (from, to, style) =>
        found.push([style, begin + from, begin + to])
      );
      let at = start;
      for (const [style, from, to] of [...found, ['', line.length, line.length]]) {
        if (at < from) {
          yield [`${NAME}-plain`, line.from + at, line.from + from];
        }
        if (from < to) {
          yield [`${NAME}-plain ${style || ''}`.trim(), line.from + from, line.from + to];
        }
        at = to;
      }
    }

    // Whether a place is neither in a string nor in a comment of Python.
    function isPython(state, at) {
      for (let node = syntaxTree(state).resolveInner(at, 1); node; node = node.parent) {
        if (/String|Comment/.test(node.name)) {
          return false;
        }
      }
      return true;
    }

    // The lines of our magics in a cell, each with the place of the magic's name in it.
    function* magicsOf(state) {
      const first = magicLine(state.doc);
      if (first) {
        const start = first.text.indexOf('%%');
        const name = MAGIC.exec(first.text)[1];
        yield [first, [start, start + 2 + name.length], name];
        return;
      }
      for (let number = 1; number <= state.doc.lines; number++) {
        const line = state.doc.line(number);
        const match = LINE_MAGIC.exec(line.text);
        if (match) {
          const start = match[0].length - match[1].length;
          if (isPython(state, line.from + start)) {
            yield [line, [start, match[0].length], match[2]];
          }
        }
      }
    }

    function linesColoured(sql) {
      function decorate(state) {
        const marks = [];
        for (const [line, place, magic] of magicsOf(state)) {
          for (const [style, from, to] of marksOf(state, sql, line, place, magic)) {
            marks.push(Decoration.mark({ class: style }).range(from, to));
          }
        }
        return Decoration.set(marks);
      }
      const plugin = ViewPlugin.define(
        view => ({
          marks: decorate(view.state),
          update(change) {
            const isNew = syntaxTree(change.startState) !== syntaxTree(change.state);
            if (change.docChanged || isNew || change.transactions.some(one => one.reconfigured)) {
              this.marks = decorate(change.state);
            }
          }
        }),
        { decorations: value => value.marks }
      );
      return Prec.highest(plugin); // marks of the highest precedence are the innermost, so their colour is what is seen
    }

    function colouring(sql) {
      const slot = new Compartment(); // empty, or SQL as the cell's language
      const asMagic = Decoration.line({ class: `${NAME}-magic` });
      const decorated = EditorView.decorations.compute(['doc'], state => {
        const line = magicLine(state.doc);
        return line ? Decoration.set([asMagic.range(line.from)]) : Decoration.none;
      });
      const on = [Prec.highest(sql.extension), decorated];
      const follow = EditorState.transactionExtender.of(change => {
        if (!change.docChanged) {
          return null;
        }
        const was = slot.get(change.startState) === on;
        const is = magicLine(change.newDoc) !== null;
        return was === is ? null : { effects: slot.reconfigure(is ? on : []) };
      });
      const coloured = linesColoured(sql);
      return source => [slot.of(MAGIC.test(source.replace(/^\s+/, '')) ? on : []), follow, coloured, commenting];
    }

    // The command that puts a comment sign into a line: null if a change is something else.
    function commentsIn(change, line) {
      let toggle = null;
      change.changes.iterChanges((from, to, _, __, inserted) => {
        if (from === to && line.from <= from && from <= line.to) {
          toggle = { '-- ': toggleComment, '/* ': toggleBlockComment }[inserted.toString()] || toggle;
        }
      });
      return toggle;
    }

    // Ctrl+/ is a command of the application, which its menu and other shortcuts run as well. So the change that it
    // makes is what is caught: it is made again for the part of the selection below the magic line. A change of the
    // shared model is none of it; without it the editor would differ from the model.
    const isCommand = change => !change.annotation(Transaction.userEvent) && !change.annotation(ySyncAnnotation);
    const commenting = EditorState.transactionFilter.of(change => {
      const state = change.startState;
      const line = change.docChanged && isCommand(change) && magicLine(state.doc);
      const toggle = line && commentsIn(change, line);
      if (!toggle) {
        return change;
      }
      const body = line.to + 1;
      const below = state.selection.ranges
        .filter(range => (range.empty ? range.from >= body : range.to > body))
        .map(range => EditorSelection.range(Math.max(range.anchor, body), Math.max(range.head, body)));
      let made = null;
      if (below.length) {
        const clipped = state.update({ selection: EditorSelection.create(below) }).state;
        toggle({ state: clipped, dispatch: one => (made = one) });
      }
      return made ? { changes: made.changes, selection: state.selection.map(made.changes, 1) } : [];
    });

    function addStyle() {
      const style = document.createElement('style');
      // :where() weighs nothing: the class of a part overrides it, what the part would inherit does not.
      style.textContent =
        `:where(.${NAME}-plain) { color: var(--jp-content-font-color1); font-style: normal; font-weight: normal; ` +
        'text-decoration: none }' +
        // In Tab's list each description would have a colour of its own.
        '.jp-Completer-item:is([title^="option:"], [title^="command:"], [title^="topic:"]) .jp-Completer-monogram ' +
        '{ background: var(--jp-completer-type-background1, #1f77b4) }';
      document.head.appendChild(style);
    }

    return {
      id: `${NAME}:plugin`,
      description: 'SQL colours for %%sql, %%check and %%exercise cells and %sql lines, and comments below the magic line',
      autoStart: true,
      requires: [codemirror.IEditorExtensionRegistry, codemirror.IEditorLanguageRegistry],
      optional: [ICompletionProviderManager],
      activate: async (app, extensions, languages, completers) => {
        if (completers) {
          app.restored.then(() => leaveOutWords(completers)); // all providers are registered then
        }
        const sql = (await languages.getLanguage('sql')).support.language;
        const extend = colouring(sql);
        addStyle();
        extensions.addExtension(
          Object.freeze({
            name: NAME,
            factory: ({ model }) =>
              model.type === 'code' // a cell: neither text of a file nor Markdown
                ? codemirror.EditorExtensionRegistry.createImmutableExtension(extend(model.sharedModel.getSource()))
                : null
          })
        );
      }
    };
  }

  (window._JUPYTERLAB = window._JUPYTERLAB || {})[NAME] = {
    init(scope) {
      shared = scope;
    },
    async get() {
      const plugin = await makePlugin();
      return () => ({ __esModule: true, default: plugin }); // without __esModule no notebook opens
    }
  };
})();
