// Names in tables, such as `sasl.oauthbearer.token.endpoint.url` and `startingOffsetsByTimestamp`, wrap after a dot or an
// underscore and before a capital letter, not inside a word. The text of the page stays as it is: search and copied names
// have no space in them.
for (const code of document.querySelectorAll(".md-typeset td code")) {
  for (const text of [...code.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)) {
    const parts = text.data.split(/(?<=\w[._/,=])(?=\w)|(?<=[a-z]{3})(?=[A-Z][a-z])/);
    text.replaceWith(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
  }
}
