"""Words so frequent in a language that running text has at least two of them, by ISO 639-1 code.

Gopher's rule (`gopher_stop_words`) has eight for English; those stay. The others are function words (articles, particles,
prepositions, conjunctions, forms of "to be") from each language's grammar. That they are frequent is measured on the
GNOME help in `benchmarks/data/heuristics.py`. In Chinese and Japanese a word is one character here, so these are
single characters. Languages of other scripts without spaces (Thai, Lao, Khmer, Burmese) have no list: their
words can't be told from characters, and the rule does not judge them.
"""

_WORDS = {
    "ar": "في من على إلى أن هذا هذه التي الذي عن مع أو لا ما كان",
    "as": "আৰু এই কৰক হয় কৰিবলৈ এটা আপুনি বা পৰা যদি নহয় কৰিব আপোনাৰ",
    "bg": "и на да се за от в с не е са по това като",
    "bs": "i je u na se da za su od s sa kao ili ne koji",
    "ca": "de la el que i en a per un una els les o no és del",
    "cs": "a se v na je že do pro s z k nebo které pokud jako po",
    "da": "og i at er en til på der for af den det med ikke kan som eller",
    "de": "der die und in den von zu das mit ist sie auf für ein eine oder nicht",
    "el": "και το να της του την στο για με από που είναι η τα σε ή",
    "en": "the be to of and that have with",
    "es": "de la que el en y a los se del las un por con para una o no es",
    "et": "ja on ei et see kui ka mis oma selle või aga",
    "eu": "eta da ez bat du dira edo hau izan dute",
    "fa": "و در به از که این را با است برای یک آن تا یا می",
    "fi": "ja on ei että se kun jos tai voit joka myös mutta ovat tämä ole",
    "fr": "de la le et les des en un une du que pour est dans vous ou pas",
    "gl": "de a o que e en do da para un unha os as por ou non é se",
    "gu": "અને છે આ માટે કે તે એક જો તમે પર તમારા નથી અથવા સાથે",
    "he": "של את על לא או זה הוא עם אל כי גם כל יש אם",
    "hi": "के में है की और को से का यह पर एक या कि आप हैं लिए तो",
    "hr": "i je u na se za da su od s ili ne kao koji kako ako",
    "hu": "a az és hogy nem egy is ez vagy van ha meg csak",
    "id": "yang dan di untuk dengan dari ini pada atau tidak anda dapat ke akan",
    "it": "di e che la il un a per in una è le i con non del si o",
    "ja": "の に は を が で と し て る",
    "kn": "ಮತ್ತು ಈ ಒಂದು ಅಥವಾ ನೀವು ನಿಮ್ಮ ಇದು ಎಂದು ಆ ಇದೆ ಹಾಗು",
    "ko": "수 및 이 그 있습니다 또는 때 것 할 합니다 더 이를 다른 않습니다",
    "lt": "ir yra į kad su iš ar kaip jei tai galite arba ne jūs",
    "lv": "un ir lai uz ar no vai kas par ja to ka var kā",
    "mk": "и на да се во за од со не е како што ќе",
    "ml": "ഒരു ഈ ആണ് എന്ന അല്ലെങ്കിൽ കൂടാതെ ഇത് നിങ്ങളുടെ",
    "mr": "आणि आहे या हे करा किंवा जर तुम्ही एक नाही तर तुमच्या साठी ते",
    "nl": "de het een en van in te is dat op met voor u niet of zijn",
    "no": "og i er det som en på til av for å med ikke den kan eller",
    "pa": "ਦੇ ਹੈ ਨੂੰ ਅਤੇ ਲਈ ਦੀ ਵਿੱਚ ਇਹ ਤੁਸੀਂ ਜਾਂ ਤੇ ਤੋਂ ਨਾਲ ਹਨ",
    "pl": "i w na z się do nie jest że lub aby to od po jak za",
    "pt": "de a o que e do da em um para é com não uma os no se ou",
    "ro": "de și în a la cu pentru că este un o din pe sau nu să",
    "ru": "и в не на с что по для или из к как от если это а",
    "sk": "a sa v na je že do pre s z k alebo ktoré ako po nie",
    "sl": "in je v na za se da so z ki ali s če ne lahko kot",
    "sq": "dhe në të e për me nga një që si ose nuk është",
    "sr": "и је у на се за да су од или не као који ако i je u na se za da su od ili ne kao koji ako",
    "sv": "och i att är en som på för av med till det den inte kan eller",
    "ta": "ஒரு மற்றும் இந்த அல்லது நீங்கள் என உங்கள் அது வேண்டும் இல்லை இது உள்ள",
    "te": "మరియు ఒక ఈ మీరు మీ లేదా ఆ కోసం ఉంటే అది లో కు",
    "tr": "ve bir bu için ile da de olarak veya ya daha çok gibi her",
    "uk": "і в на з не що до або для та як від за це якщо у",
    "ur": "کے میں ہے کی اور کو سے کا یہ پر ایک کہ نہیں",
    "vi": "và của là có trong cho các được không một với bạn để này",
    "zh": "的 是 不 在 一 有 了 人 这 到 以 要 会 可",
}
STOP_WORDS = {language: tuple(words.split()) for language, words in _WORDS.items()}
"""At most 64 words a language."""
