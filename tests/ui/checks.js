// Checks of a page, each of which returns sentences about what is wrong. As axe has them, as far as they matter here.
(kind) => {
  const wrong = [];
  const name = (element) => element.outerHTML.slice(0, 120);
  const seen = (element) => element.checkVisibility({ checkVisibilityCSS: true });

  const accessibleName = (element) => {
    const label = element.labels && element.labels[0] ? element.labels[0].textContent : "";
    return (element.getAttribute("aria-label") || label || element.textContent || element.title || "").trim();
  };

  function labels() {
    if (document.documentElement.lang !== "en") wrong.push("no language");
    if (!document.title) wrong.push("no title");
    if (document.querySelectorAll("main").length !== 1) wrong.push("not one main");
    if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
    if (!document.querySelector("[aria-live=polite]")) wrong.push("nothing is announced");
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    for (const id of ids) if (ids.filter((one) => one === id).length > 1) wrong.push(`id ${id} twice`);
    for (const one of document.querySelectorAll("[aria-labelledby]")) {
      if (!document.getElementById(one.getAttribute("aria-labelledby"))) wrong.push(`no label for ${name(one)}`);
    }
    for (const one of document.querySelectorAll("a, button, input:not([type=hidden]), select")) {
      if (seen(one) && !accessibleName(one)) wrong.push(`no name: ${name(one)}`);
    }
    for (const one of document.querySelectorAll("nav, form, section")) {
      if (one.matches("form") && !one.querySelector("input:not([type=hidden])")) continue;
      if (!one.matches("[aria-label], [aria-labelledby], [role=search], .login")) wrong.push(`no label: ${name(one)}`);
    }
    for (const one of document.querySelectorAll("table")) if (!one.caption) wrong.push(`no caption: ${name(one)}`);
    for (const one of document.querySelectorAll("th")) if (!one.scope) wrong.push(`no scope: ${name(one)}`);
    for (const one of document.querySelectorAll("ul, ol")) {
      for (const child of one.children) if (!child.matches("li")) wrong.push(`no item: ${name(child)}`);
    }
    let level = 1;
    for (const one of document.querySelectorAll("h1, h2, h3")) {
      const own = Number(one.tagName[1]);
      if (own > level + 1) wrong.push(`heading leaves out a level: ${name(one)}`);
      level = own;
    }
  }

  // Colours are read back from a canvas, which knows every notation.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  function rgba(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  }
  function luminance([red, green, blue]) {
    const [r, g, b] = [red, green, blue].map((one) => {
      const part = one / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function background(element) {
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  }
  function contrast() {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let texts = 0;
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || element.closest("template, script, option") || !seen(element)) continue;
      texts += 1;
      const [a, b] = [rgba(getComputedStyle(element).color), background(element)].map(luminance);
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) wrong.push(`${ratio.toFixed(2)}: ${name(element)}`);
    }
    if (texts < 20) wrong.push(`only ${texts} texts were looked at`);
  }

  // What a tenant's name may have made.
  function foreign() {
    for (const one of document.querySelectorAll("script")) {
      if (!one.src.startsWith(`${location.origin}/ui/static/`)) wrong.push(name(one));
    }
    for (const one of document.querySelectorAll("img, iframe, object, style, [style], base, embed")) wrong.push(name(one));
    for (const one of document.querySelectorAll("*")) {
      for (const { name: attribute } of one.attributes) if (attribute.startsWith("on")) wrong.push(name(one));
    }
    if (/[\u0000-\u0008\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent)) wrong.push("an unseen character");
  }

  ({ labels, contrast, foreign })[kind]();
  return wrong;
}
