// SQL colours for %%sql cells, in JupyterLab 4 and Notebook 7. Written by hand as a module of the federation
// protocol, so that nothing has to be built: CodeMirror and the registries are those that the application shares.
(function () {
  'use strict';
  const NAME = 'pipemagic-sql';
  const MAGIC = /^\s*%%sql(?!\S)/;
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

  async function makePlugin() {
    const codemirror = await use('@jupyterlab/codemirror');
    const { Compartment, EditorState, Prec } = await use('@codemirror/state');
    const { Decoration, EditorView } = await use('@codemirror/view');

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
      return source => [slot.of(MAGIC.test(source.replace(/^\s+/, '')) ? on : []), follow];
    }

    function addStyle() {
      const style = document.createElement('style');
      style.textContent =
        `.${NAME}-magic, .${NAME}-magic span ` +
        '{ color: var(--jp-mirror-editor-meta-color, #a2f) !important; font-style: normal !important }';
      document.head.appendChild(style);
    }

    return {
      id: `${NAME}:plugin`,
      description: 'SQL colours for the cells of the magic %%sql',
      autoStart: true,
      requires: [codemirror.IEditorExtensionRegistry, codemirror.IEditorLanguageRegistry],
      activate: async (app, extensions, languages) => {
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
