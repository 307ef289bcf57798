# ruff: noqa: E501 -- word lists, one item a line
"""The words of the CoSRec sample: kinds of products, what they differ in, what people ask. Written for it; CC0.

A kind is one block of ``KINDS``. Its first line: name | what shoppers call it | category | accessories | lowest
price - highest price. Each further line is an attribute: values with semicolons between, a value as
``in the product's text / other wording there / a shopper's wording``.
"""

KINDS = """
tent | shelter for camping, camping tent | Camping | footprint, peg set, repair kit | 60 - 420
size: sleeps one person / single berth / just for me; sleeps two people / twin berth / for me and my partner; sleeps five people / room for the family / for the five of us
fabric: ripstop nylon fly / nylon shell with ripstop weave / nylon that does not tear; polycotton canvas / woven canvas walls / breathable canvas; recycled polyester fly / polyester made of bottles / something recycled
weather: storm rated poles / tested in gales / that stands a storm; three season mesh / mesh for spring to autumn / airy enough for summer; snow skirt / skirting against drifts / usable in snow

sleeping bag | bag to sleep in outdoors, camp bedding | Camping | liner, compression sack, stuff sack | 30 - 360
filling: goose down filling / 700 fill power down / filled with down; synthetic filling / hollow fibre insulation / not made of animals; wool batting / woollen insulation / woolly inside
shape: mummy cut / tapered at the feet / close fitting; rectangular cut / opens flat as a quilt / that I can open wide; double width / joined for couples / for two in one bag
warmth: comfortable to minus ten / winter insulation / for frosty nights; comfortable to five degrees / mild season insulation / for cool nights; summer weight / thin for hot nights / for warm nights

backpack | rucksack, pack for the back | Hiking | rain cover, hip belt pouch, chest strap | 25 - 260
volume: holds 20 litres / daypack capacity / for a day out; holds 45 litres / weekend capacity / for a weekend; holds 70 litres / expedition capacity / for weeks on the road
carrying: ventilated back panel / trampoline mesh back / that keeps my back cool; padded hip belt / load bearing belt / that carries on the hips; roll top closure / folded top opening / without a zip on top
extra: laptop sleeve / padded computer compartment / with a place for my computer; hydration port / opening for a drinking tube / to drink while walking; detachable lid / lid that becomes a pouch / with a lid I can take off

hiking boots | walking boots, shoes for the mountains | Hiking | laces, insoles, boot wax | 55 - 320
height: ankle high collar / mid cut shaft / that hold my ankles; low cut collar / shoe height / low ones like shoes; calf high shaft / tall leather shaft / tall ones
upper: full grain leather upper / oiled hide upper / made of leather; knitted synthetic upper / woven textile upper / without leather; suede and mesh upper / roughout panels with mesh / airy ones
sole: deep lugged sole / aggressive tread / with grip in mud; stiff shank / rigid midsole / stiff enough for scree; cushioned midsole / soft foam sole / soft to walk on

headlamp | lamp for the head, head torch | Lighting | spare strap, battery pack, helmet clips | 12 - 140
beam: throws 300 lumens / bright spot beam / that lights far; red night mode / red light setting / that does not blind others; wide flood beam / even close range glow / for reading in camp
energy: rechargeable cell / charges over a cable / that I can charge; runs on three small batteries / takes standard cells / with ordinary batteries; hybrid supply / accepts cell or batteries / that takes both
wear: seals against rain / rated for downpours / for wet nights; single strap / minimal headband / with one band; tilting head / angle adjusts downwards / that I can tilt

camp stove | cooker for outdoors, burner | Camp kitchen | wind screen, fuel bottle, stove stand | 18 - 190
fuel: burns gas canisters / screw on cartridge burner / on gas; burns liquid fuel / white gas burner / on petrol; burns twigs / wood fired firebox / on wood I find
burner: simmer valve / fine flame control / to cook gently; fast boil burner / rolling boil in two minutes / for quick tea; twin burners / two flames side by side / for two pots
build: folds to pocket size / collapsible pot supports / that fits in a pocket; stainless steel frame / steel housing / made of steel; titanium body / titanium pot supports / as light as can be

espresso machine | coffee maker for espresso, machine for strong coffee | Coffee | descaler, portafilter basket, milk jug | 90 - 900
operation: lever operated / manual piston lever / that I work by hand; pump driven / fifteen bar pump / with a pump; bean to cup / grinds and brews by itself / that does everything itself
milk: steam wand / manual frothing wand / to froth milk myself; automatic milk carafe / milk system foams by itself / for cappuccino at a button; without milk system / black coffee only / only for black coffee
boiler: dual boiler / separate brew and steam circuits / for coffee and milk at once; thermoblock heating / heats in half a minute / that is hot quickly; single boiler / one brass boiler / a simple one

coffee grinder | mill for coffee beans, bean mill | Coffee | cleaning brush, spare burrs, dosing cup | 25 - 380
burrs: conical steel burrs / cone shaped grinding set / with steel burrs; flat ceramic burrs / ceramic disc set / with ceramic inside; spinning blade / chopping blade / with a plain blade
drive: hand crank / manual handle / that I turn by hand; electric motor / mains powered motor / that is electric; battery drive / cordless motor / to take along
setting: stepless adjustment / continuous grind collar / to set it finely; forty settings / numbered grind steps / with marked steps; single setting / fixed medium grind / that needs no setting

kettle | water boiler, pot to boil water | Kitchen | limescale filter, spare lid, base plate | 15 - 160
body: borosilicate glass body / clear glass jug / made of glass; brushed steel body / double walled steel / made of steel; ceramic body / glazed stoneware jug / a ceramic one
pour: gooseneck spout / slender curved spout / to pour slowly; wide spout / fast pouring lip / that pours fast; drip free spout / anti drip edge / that does not drip
control: temperature dial / variable heat settings / where I choose the heat; keep warm function / holds heat for an hour / that keeps water hot; whistle / sounds when it boils / that whistles

chef knife | cook's knife, kitchen blade | Kitchen | sharpening stone, blade guard, knife block | 20 - 340
steel: high carbon steel / carbon blade with patina / that takes a keen edge; stainless alloy / rust resisting steel / that does not rust; layered damascus steel / folded steel pattern / with a pattern in the blade
length: fifteen centimetre blade / short blade / for small hands; twenty centimetre blade / classic length / of the usual length; twenty five centimetre blade / long blade / a long one
handle: walnut handle / oiled wooden grip / with a wooden handle; textured polymer handle / moulded grip / that is not slippery; octagonal handle / eight sided grip / with a Japanese handle

frying pan | skillet, pan for frying | Kitchen | lid, splatter guard, pan protector | 18 - 230
material: seasoned cast iron / raw iron casting / of cast iron; forged carbon steel / thin blue steel / of carbon steel; coated aluminium / non stick aluminium / where nothing sticks
heat: works on induction / magnetic base / for an induction hob; oven safe handle / goes into the oven / that goes in the oven; heats evenly / encapsulated core base / without hot spots
size: twenty four centimetres wide / medium diameter / for two eggs; twenty eight centimetres wide / family diameter / for four; thirty two centimetres wide / extra wide diameter / as wide as possible

blender | mixer for smoothies, machine for purees | Kitchen | tamper, spare jug, travel lid | 25 - 480
jug: heat proof glass jug / thick glass pitcher / with a glass jug; shatterproof jug / break resistant pitcher / that cannot break; bottle attachment / blends into a travel bottle / to drink from at once
motor: crushes ice / ice crushing blades / for ice; hums softly / sound insulated housing / that is quiet; high torque motor / 1500 watt drive / with much power
program: pulse button / short bursts / where I control it; soup program / heats while blending / for hot soup; self cleaning cycle / rinses itself / that cleans itself

desk lamp | lamp for the desk, reading light | Office | spare bulb, clamp, lamp shade | 18 - 210
light: warm white light / cosy evening tone / with warm light; daylight spectrum / high colour rendering / like daylight; adjustable colour temperature / from cool to warm / with changeable colour
arm: swing arm / spring balanced arm / that I can move around; bendable neck / flexible goose neck / with a neck to bend; fixed column / rigid upright stand / that stays put
base: clamps to the table / screw clamp mount / to clamp on; weighted foot / heavy stand / that stands by itself; wireless charging foot / charges a phone on its base / that charges my phone

office chair | chair for the desk, seat for work | Office | casters, seat cushion, arm pads | 80 - 900
back: mesh backrest / breathable net back / airy at the back; high padded back / tall upholstered back / with a tall back; headrest / adjustable neck support / with a headrest
seat: tilting seat / synchronous tilt / that tilts with me; sliding seat / adjustable seat depth / for long legs; saddle seat / open hip saddle / to sit upright
arms: four way armrests / fully adjustable arms / with arms I can set; fold up armrests / arms swing away / with arms out of the way; armless / without armrests / without arms

keyboard | keys for the computer, typing board | Office | wrist rest, keycap puller, dust cover | 20 - 290
switch: mechanical switches / clicking key switches / with a real click; silent switches / dampened keys / quiet enough for the office; scissor keys / flat low travel keys / with flat keys
layout: compact layout / sixty percent size / a small one; full size with number pad / separate numeric block / with numbers; split layout / two halves / in two halves
link: connects over bluetooth / pairs with three devices / without a cable; detachable cable / plugs in by cable / with a cable; receiver stick / wireless dongle / with its own receiver

headphones | earphones over the ear, headset for music | Audio | ear pads, carrying case, audio cable | 30 - 520
form: over ear cups / circumaural cushions / around the ear; on ear cups / supra aural pads / smaller ones; in ear buds / canal buds / in the ear
sound: active noise cancelling / microphones cancel hum / that shut out the train; open back / open acoustic housing / airy sound; studio tuning / neutral response / honest sound
link: wireless with forty hours / long running radio link / to hear all week without charging; wired plug / three metre lead / with a wire; folding hinges / collapses flat / that fold up

bicycle light | lamp for the bike, cycling light | Cycling | handlebar mount, seat post mount, charging cable | 10 - 180
place: front light / handlebar beam / for the front; rear light / seat post flasher / for the back; pair of lights / front and rear set / for both ends
energy: dynamo powered / runs off the hub / that needs no charging; charges by cable / built in cell / that I can charge; button cells / coin battery power / with small batteries
mount: tool free strap / rubber strap mount / without tools; bolted bracket / screwed bracket / that stays on the bike; magnetic mount / snaps on by magnet / that snaps on

rain jacket | waterproof coat, shell against rain | Outdoor clothing | wash in proofer, stow bag, drawcord | 35 - 430
membrane: three layer membrane / laminated shell / for days of rain; two and a half layer film / thin inner print / for showers; waxed cotton / wax impregnated cloth / of waxed cloth
vent: underarm zips / pit zip vents / that I can air; mesh lined pockets / venting pockets / airy; back yoke vent / flap across the back / that breathes at the back
hood: helmet compatible hood / oversized hood / over a helmet; stowable hood / hood rolls into the collar / with a hood to hide; fixed hood / attached hood with peak / with a peak

water filter | filter for drinking water, purifier | Camp kitchen | spare cartridge, dirty water bag, backflush syringe | 20 - 330
method: hollow fibre membrane / bundle of tiny tubes / against bacteria; carbon core / activated charcoal stage / against bad taste; ceramic candle / porous ceramic element / that I can scrub
use: squeeze bag / press through pouch / to squeeze; gravity bag / drips by itself from a hung bag / that works by itself; pump handle / hand pumped / to pump from puddles
yield: one litre a minute / steady flow / for one person; four litres a minute / group flow / for a group; sips through a straw / drinking straw / to drink straight from the stream

yoga mat | mat for exercise, gymnastics mat | Fitness | carrying strap, mat cleaner, knee pad | 15 - 150
surface: natural rubber surface / tree rubber grip / that does not slip; cork surface / cork top layer / of cork; microfibre towel surface / absorbent velvet top / for sweaty hands
thickness: two millimetres thin / travel thickness / thin for travel; five millimetres thick / standard padding / of usual thickness; ten millimetres thick / extra padding / soft for knees
size: two metres long / extended length / for tall people; folds into squares / foldable panels / that folds; round shape / circular mat / a round one
"""

BRANDS = (
    "Fernbrook Larkhill Otterby Tallis Quern Hollin Marrow Sedge Pikestone Wyndham Calder Brambley Kestrel Norde "
    "Ashgill Thornby Velda Corrin Maple Ostrava Ruskin Linnet Garth Halden"
).split()
LINES = (
    "Solo Ridge Feather Drift Alto Prime Vale Orbit Crest Ember Pico Atlas Nova Terra Moss Flint Aria Delta Fjord "
    "Grove Sol Tarn Vega Cove"
).split()

# Trait -> how a product with it is described (the shopper's own word, other wordings), and praise in reviews.
TRAITS = {
    "durable": (
        "Durable construction.",
        "Made to outlive its guarantee.",
        "After years of use nothing has come loose.",
    ),
    "cheap": ("A cheap choice.", "Costs less than most of its kind.", "Hardly any money for what it does."),
    "light": ("Very light.", "You barely notice its mass.", "I forget that I am holding it."),
    "quiet": ("Quiet in use.", "Hardly makes a sound.", "Nobody in the house wakes up."),
    "compact": ("Compact when stowed.", "Takes little room when put away.", "Fits where nothing else did."),
    "easy to clean": ("Easy to clean.", "A damp cloth is all it needs.", "A wipe and the dirt is gone."),
    "comfortable": ("Comfortable for hours.", "Kind to body and hands.", "No sore spots after a long day."),
    "stylish": ("A stylish finish.", "Handsome lines.", "Guests ask where it is from."),
    "sustainable": (
        "Sustainable materials.",
        "Made with the next generation in mind.",
        "Glad that it can be mended.",
    ),
    "safe": ("Safe in every hand.", "Nothing pinches, burns or tips.", "I let the children use it."),
}
PAIRS = (  # what a description says to keep shoppers of the other trait away: the word stands, the trait does not
    ("cheap", "Not a cheap thing, and not meant to be."), ("light", "Not light, but it stays where it is put."),
    ("quiet", "It is not quiet; you will hear it work."), ("compact", "By no means compact."),
    ("durable", "Delicate; others are more durable."), ("stylish", "More useful than stylish."),
)  # fmt: skip

# Topic -> title | sentences of knowledge | questions that name it | questions that only hint at it. Shoppers and
# authors share stems and hardly a word: "cleaned" here is "cleaning", "cleaners" or "uncleaned" there.
TOPICS = {
    "cleaning": (
        "Cleaning {kinds}",
        "Cleaning {kinds} takes lukewarm water and a soft brush.|Washing up liquid leaves a film on the {kind}; mild soap flakes do not.|Cleansers with bleach weaken the surface of {kinds}.|Dirt in seams and corners calls for a brush before cleaning the {kind}.|Stains on uncleaned {kinds} go with a paste of baking soda.|Cleanliness of the {kind} also means drying in the shade after washing.",
        "How should {a} {kind} be cleaned properly?|How often must {it} be washed or cleaned?|Which soap cleans {it} best?",
        "What do I do once {it} gets dirty?|Mine always end up stained, how is that avoided?",
    ),
    "storage": (
        "Storage of {kinds}",
        "Storing {kinds} dry and loose keeps mould away.|A storage sack of cotton lets air at the {kind}.|Storerooms in cellars are too damp for {kinds}; an attic shelf is better.|Overwintering {kinds} hang where mice do not climb.|Months of storage need a look at the {kind} for moisture.|Folds along the same lines crack when storing {kinds}.",
        "How should {a} {kind} be stored?|Where is {it} stored best?|Must {it} be stored flat or hung up?",
        "I will not use {it} for months, does that matter?|Where should {it} spend the winter?",
    ),
    "size": (
        "Sizes of {kinds}",
        "Measurements of {kinds} are taken outside, not inside.|Measuring before buying the {kind} takes two minutes.|Oversized {kinds} are what most people choose.|Undersized {kinds} wear out at the edges.|Fitting sessions in your own clothes tell more than the label of the {kind}.|Remeasure in centimetres, since makers of {kinds} use two charts.",
        "How do I measure for {a} {kind}?|How are sizes measured?|What should I measure before I choose the size?",
        "I am rather tall, does that change anything?|Will {it} fit me, how can I tell?",
    ),
    "materials": (
        "Materials for {kinds}",
        "Cheaper materials add weight to {kinds}.|Natural materials age well in the {kind} but need care.|Coated materials keep water off {kinds} for about five years.|Composite materials give the {kind} a strong core and a soft surface.|Dissimilar materials decide how {kinds} feel in the cold.|Flimsiness of the {kind} comes from thin materials.",
        "Which material is best for {a} {kind}?|What material is used and how does it differ?|Does the material make a difference?",
        "Why do some feel so flimsy?|What is the stuff they are made of worth?",
    ),
    "safety": (
        "Dangers of {kinds}",
        "Dangers of {kinds} grow when people are in a hurry.|Endangered are children who reach the {kind} alone.|Dangerously worn {kinds} show cracks; replace them.|Dangers of heat end where the {kind} stands apart.|Endangering others with {kinds} costs a fine.|Gloves prevent nine of ten dangers of the {kind}.",
        "How dangerous is {a} {kind}?|Is {it} dangerous for children?|What makes {it} dangerous?",
        "I have small children, should I worry?|What can go wrong with {it}?",
    ),
    "lifetime": (
        "Lifespans of {kinds}",
        "Lifespans of {kinds} run from eight to twelve years.|Heavy use halves the lifetime of the {kind}.|Lifelong {kinds} have few moving parts.|Lifetimes under guarantee rarely cover wear of the {kind}.|Prolonging lifespans of {kinds} takes daily care.|Expectations of a lifelong {kind} end after a decade.",
        "What lifespan does {a} {kind} have?|Which lifespan can I expect?|What prolongs the lifespan?",
        "When will I have to buy the next one?|Will I still have {it} when I am old?",
    ),
    "repair": (
        "Repairing {kinds}",
        "Repairing {kinds} begins with tape on both sides of a tear.|Repairers keep parts of the {kind} for ten years.|Repairs of {kinds} mostly end with a screw that was loose.|Repairable is every {kind} that has screws and no glue.|Unrepaired {kinds} find help in mending cafés for a donation.|Repairing is easier after a photo of the opened {kind}.",
        "How is {a} {kind} repaired?|Can I repair {it} myself?|What do I need to repair {it}?",
        "What if something on {it} breaks?|Mine snapped last time, is it lost then?",
    ),
    "environment": (
        "{kinds} and environmental damage",
        "Environmental damage by {kinds} comes mostly from making them.|Environmentally it is best to use the {kind} twice as long.|Environmentalists count three percent for the packaging of {kinds}.|Environmental labels rule out fluorinated chemicals in the {kind}.|Second hand {kinds} save nine tenths of the environmental load.|Recycling yards take the old {kind} for environmental reasons.",
        "How bad is {a} {kind} for the environment?|Which choice protects the environment?|What does the environment bear when {it} is made?",
        "I would like to be green about it, is that possible?|What happens to {it} when it is thrown away?",
    ),
    "price": (
        "The expense of {kinds}",
        "Half of the expense of {kinds} pays for the brand.|Expenses for running the {kind} exceed its price after four years.|Inexpensive {kinds} cannot be made fairly.|Less expense for the {kind} is due in late autumn.|Expensively made {kinds} cost three times as much as poor ones.|Renting saves the expense of the {kind} for six days a year.",
        "Why is {a} {kind} so expensive?|How expensive should {it} be?|Is an expensive one worth paying for?",
        "Do I pay for the name there?|Is the dear one really better?",
    ),
    "beginners": (
        "{kinds} for beginners",
        "Beginners do best with the simplest {kind}.|Beginnings with {kinds} need a product that forgives errors.|Beginners practise with the {kind} at home.|Beginners buy too many extras for their {kinds}.|Beginning with a short course on the {kind} saves a year.|Borrowed {kinds} make a good beginning.",
        "What should a beginner know about {a} {kind}?|Which features matter to a beginner?|Which error does every beginner make?",
        "I have never owned one, where do I start?|What would you tell somebody who is new to this?",
    ),
    "weather": (
        "{kinds} and weathering",
        "Weathering stiffens the joints of {kinds} in the cold.|Weatherproofed seals of the {kind} soften above forty degrees.|Weathered {kinds} should be wiped the same evening.|Salt air is weathering the metal of the {kind} within two summers.|Weatherproofing helps {kinds} against humidity more than against frost.|Slow warming after a night outdoors keeps weathering from the {kind}.",
        "How does {a} {kind} stand the weather?|Does bad weather harm {it}?|Is {it} made for any weather?",
        "It is usually freezing or pouring where I live, is that a problem?|Could {it} stay outside?",
    ),
    "history": (
        "Inventors of {kinds}",
        "Inventors of {kinds} worked in a village workshop.|Inventions like the {kind} were a luxury in the nineteenth century.|Inventing {kinds} as they are today took an army order.|Inventors named the {kind} after a word for shelter or tool.|Reinvention in factories made {kinds} affordable after the war.|Collectors pay high prices for the {kind} of its inventor.",
        "Who invented the {kind}?|When was the {kind} invented?|Was {it} invented long ago?",
        "Did my grandparents have such a thing?|How did people manage before?",
    ),
}  # fmt: skip
PLURALS = {
    "knife": "knives",
    "torch": "torches",
    "bedding": "bedding",
    "s": "s",
}  # endings that take no plain s
SPLIT = {
    "backpack": "back pack",
    "headlamp": "head lamp",
    "keyboard": "key board",
    "headphones": "head phones",
}
SPELT = 1 / 3  # of the authors write a compound the other way
FILLER = (
    "Opinions differ, and both sides have good reasons.", "A magazine compared twelve models over a summer.",
    "Ask a shop for a demonstration.", "The manual says more about it.", "Readers have sent us many letters about this.",
    "What works for one household may not for another.", "Small differences matter more than advertising.",
    "Take your time and write down what you need.",
)  # fmt: skip

# What shoppers say. Those before the bar also occur in the crowd partition; those after it only in the curated one.
OPENINGS = "Hi, I am looking for {call}, {wish}. What would you recommend?|Hello! I need {call} {wish}. Any suggestions?|Can you help me find {call}? It should be {wish}.|We want to buy {call}, {wish}. What do you have?||My old one gave up. I would like {call} again, {wish}.|Good evening, {call} {wish} would be great, do you know one?"  # fmt: skip
REFINES = "It should also be {wish}. Which one would you take?|And {wish} would be good. Can you suggest something?|{Wish}, please. What fits?|I forgot: {wish}. Do you have that, too?|I usually want it {wish}.||{Wish} matters to me most of all.|If there is one {wish}, I would rather see that.|Hm, how about {wish}?"  # fmt: skip
MORE = "Do you have something else, perhaps {wish}?|What other ones are there {wish}?|Show me another, {wish}.||That is not quite it. {Wish} maybe?|And what if I want {wish}?"
DETAILS = "How heavy is the {title}?|What does the {title} cost?|Does the {title} come with a guarantee?|Tell me more about the {title}.|Is the first one available in green?|What is special about it?||And how about that {title}, what do its buyers say?|Could you say a little more on the first?|Which materials does the {title} have?"  # fmt: skip
LEADS = "{question}|{question}|One question first. {question}|Before I decide: {Question}|By the way, {Question}|I would like to read about {topic} for {kinds}.||Could you find something on {topic}?|And {topic}, can you say a little more on that?|Hm, {topic} matters to me. What is there to know?"  # fmt: skip
CLOSINGS = "That convinces me, I will take it. Thank you!|Perfect, thanks for your help!|Great, I will order it. Bye!|Thank you, that was all.||Lovely. Then my search is over!|Good, that settles it for me."  # fmt: skip
CHAT = "I mostly use it at weekends.|We go out a few times a year.|About {budget} dollars.|No brand in particular.|Mostly alone, sometimes with a friend.||Hard to say, it depends.|Somewhere around {budget} I suppose."
ASKS = "Of course. How will you use it?|Gladly. What is your budget?|Sure. Who is it for?|Happy to help. Do you have a brand in mind?"
OFFERS = "You could look at the {title}, which costs {price:.0f} dollars.|The {title} for {price:.0f} dollars comes close to that.|Then I would show you the {title}."
ANSWERS = "{fact}|Good question. {fact}|In short: {fact}|Experts say this: {fact}"
DULL = "I see. I can help you with that. I can help you find what you need.|Yes. Yes, that is possible. It is possible."
FACTS = "It has {value}, and buyers like that.|Its description says: {value}.|It comes with {value}."
