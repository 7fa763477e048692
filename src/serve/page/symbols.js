// What TeX's commands stand for, for math.js: one character each, by what MathML calls it.

const pairs = (text) => text.trim().split(/\s+/).map((pair) => pair.split(':'));

export const kLetters = new Map(pairs(`
  alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι kappa:κ lambda:λ mu:μ nu:ν xi:ξ
  omicron:ο pi:π varpi:ϖ rho:ρ varrho:ϱ sigma:σ varsigma:ς tau:τ upsilon:υ phi:ϕ varphi:φ chi:χ psi:ψ omega:ω Gamma:Γ Delta:Δ
  Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ Upsilon:Υ Phi:Φ Psi:Ψ Omega:Ω infty:∞ partial:∂ nabla:∇ hbar:ℏ ell:ℓ Re:ℜ Im:ℑ aleph:ℵ
  emptyset:∅ varnothing:∅ imath:ı jmath:ȷ wp:℘ top:⊤ bot:⊥ angle:∠ triangle:△ square:□ blacksquare:■ checkmark:✓ degree:°
  ldots:… dots:… cdots:⋯ vdots:⋮ ddots:⋱ dotsc:… dotsb:⋯ %:% $:$ #:# &:& _:_`));

export const kOperators = new Map(pairs(`
  times:× cdot:⋅ div:÷ pm:± mp:∓ ast:∗ star:⋆ circ:∘ bullet:∙ oplus:⊕ ominus:⊖ otimes:⊗ odot:⊙ cap:∩ cup:∪ sqcup:⊔ vee:∨ lor:∨
  wedge:∧ land:∧ setminus:∖ backslash:∖ dagger:† leq:≤ le:≤ geq:≥ ge:≥ neq:≠ ne:≠ ll:≪ gg:≫ equiv:≡ approx:≈ sim:∼ simeq:≃
  cong:≅ propto:∝ in:∈ notin:∉ ni:∋ subset:⊂ supset:⊃ subseteq:⊆ supseteq:⊇ subsetneq:⊊ mid:∣ nmid:∤ parallel:∥ perp:⊥ vdash:⊢
  models:⊨ prec:≺ succ:≻ preceq:⪯ succeq:⪰ to:→ rightarrow:→ leftarrow:← gets:← leftrightarrow:↔ Rightarrow:⇒ Leftarrow:⇐
  Leftrightarrow:⇔ implies:⟹ impliedby:⟸ iff:⟺ mapsto:↦ longrightarrow:⟶ longleftarrow:⟵ longmapsto:⟼ hookrightarrow:↪ uparrow:↑
  downarrow:↓ rightleftharpoons:⇌ forall:∀ exists:∃ nexists:∄ neg:¬ lnot:¬ therefore:∴ because:∵ colon:: prime:′ triangleq:≜
  coloneqq:≔ doteq:≐ asymp:≍ lt:< gt:> lvert:| rvert:| vert:| Vert:‖ lVert:‖ rVert:‖ langle:⟨ rangle:⟩ lfloor:⌊ rfloor:⌋
  lceil:⌈ rceil:⌉ lbrace:{ rbrace:} {:{ }:} |:‖ lbrack:[ rbrack:]`));

// Above and below which their limits stand, where there is room.
export const kBig = new Map(pairs(`
  sum:∑ prod:∏ coprod:∐ bigcup:⋃ bigcap:⋂ bigoplus:⨁ bigotimes:⨂ bigvee:⋁ bigwedge:⋀`));
export const kIntegrals = new Map(pairs('int:∫ iint:∬ iiint:∭ oint:∮'));

export const kFunctions = new Set(('arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg ln log min max Pr ' +
  'sec sin sinh sup tan tanh lim limsup liminf argmax argmin').split(' '));
export const kWithLimits = new Set('lim limsup liminf min max sup inf argmax argmin det gcd Pr'.split(' '));

export const kAccents = new Map(pairs(`
  hat:^ widehat:^ tilde:~ widetilde:~ bar:¯ overline:¯ vec:→ overrightarrow:→ dot:˙ ddot:¨ acute:´ grave:\` check:ˇ breve:˘
  overbrace:⏞ overleftarrow:←`));
export const kUnder = new Map(pairs('underline:_ underbrace:⏟'));

export const kSpaces = new Map(Object.entries({
  ',': '0.17em', ':': '0.22em', '>': '0.22em', ';': '0.28em', '!': '-0.17em', ' ': '0.33em', quad: '1em', qquad: '2em',
  enspace: '0.5em', thinspace: '0.17em', '~': '0.33em',
}));

// Letters of other alphabets have code points of their own: where A, a and 0 begin, and what is elsewhere.
export const kAlphabets = {
  mathbb: [0x1d538, 0x1d552, 0x1d7d8, {C: 'ℂ', H: 'ℍ', N: 'ℕ', P: 'ℙ', Q: 'ℚ', R: 'ℝ', Z: 'ℤ'}],
  mathcal: [0x1d49c, 0x1d4b6, 0, {B: 'ℬ', E: 'ℰ', F: 'ℱ', H: 'ℋ', I: 'ℐ', L: 'ℒ', M: 'ℳ', R: 'ℛ', e: 'ℯ', g: 'ℊ', o: 'ℴ'}],
  mathscr: [0x1d49c, 0x1d4b6, 0, {B: 'ℬ', E: 'ℰ', F: 'ℱ', H: 'ℋ', I: 'ℐ', L: 'ℒ', M: 'ℳ', R: 'ℛ', e: 'ℯ', g: 'ℊ', o: 'ℴ'}],
  mathfrak: [0x1d504, 0x1d51e, 0, {C: 'ℭ', H: 'ℌ', I: 'ℑ', R: 'ℜ', Z: 'ℨ'}],
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce, {}],
  boldsymbol: [0x1d468, 0x1d482, 0x1d7ce, {}],
  bm: [0x1d468, 0x1d482, 0x1d7ce, {}],
  mathsf: [0x1d5a0, 0x1d5ba, 0x1d7e2, {}],
  mathtt: [0x1d670, 0x1d68a, 0x1d7f6, {}],
  mathrm: null,
  mathit: null,
};
export const kTexts = new Set('text textbf textit textrm textsf texttt mbox operatorname mathop'.split(' '));

// name: the fences around it, and how its columns stand
export const kEnvironments = {
  matrix: ['', '', 'center'], pmatrix: ['(', ')', 'center'], bmatrix: ['[', ']', 'center'], Bmatrix: ['{', '}', 'center'],
  vmatrix: ['|', '|', 'center'], Vmatrix: ['‖', '‖', 'center'], smallmatrix: ['', '', 'center'], array: ['', '', 'center'],
  cases: ['{', '', 'left'], aligned: ['', '', 'pair'], align: ['', '', 'pair'], 'align*': ['', '', 'pair'],
  split: ['', '', 'pair'], gathered: ['', '', 'center'], gather: ['', '', 'center'], 'gather*': ['', '', 'center'],
  equation: ['', '', 'center'], 'equation*': ['', '', 'center'],
};
